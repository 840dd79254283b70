// What both kinds of layer share: rows as columns and back, and batch normalisation with ReLU of one
// channel, whose rows lie side by side and are filled up with zeros to a multiple of 16.
#ifndef NRS_SUBSPACE_LAYER_H
#define NRS_SUBSPACE_LAYER_H
#include <math.h>

#include "engine.h"
#include "product.h"

namespace {

// (4, 4) blocks of in (rows, columns) as out (columns, rows): sixteen rows at a time, so that lines of
// the cache are filled at once, and few columns, so that few pages are written to.
static void transpose_blocks(const float *in, int64_t ld, int64_t rows, int64_t columns, float *out,
                             int64_t out_ld) {
  for (int64_t at = 0; at < columns; at += 4 * LANES) {
    int64_t last = at + 4 * LANES < columns ? at + 4 * LANES : columns;
    for (int64_t r = 0; r < rows; r += LANES) {
      int64_t end = r + LANES < rows ? r + LANES : rows;
      for (int64_t c = at; c < last; c += 4)
        for (int64_t i = r; i < end; i += 4)
          transpose4(in + i * ld + c, ld, out + c * out_ld + i, out_ld);
    }
  }
}

// in (rows, columns) as out (columns, rows); nothing else is read or written.
static void transpose_exact(const float *in, int64_t ld, int64_t rows, int64_t columns, float *out,
                            int64_t out_ld) {
  int64_t whole_rows = rows / 4 * 4, whole = columns / 4 * 4;
  transpose_blocks(in, ld, whole_rows, whole, out, out_ld);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = r < whole_rows ? whole : 0; c < columns; c++)
      out[c * out_ld + r] = in[r * ld + c];
}

// Columns from `first` to before `last` of x (rows, ...) as out (last - first, ld), filled up with
// zeros.
static void columns_of(const float *x, int64_t row_step, int64_t rows, int64_t first, int64_t last,
                       float *out, int64_t ld) {
  transpose_exact(x + first, row_step, rows, last - first, out, ld);
  for (int64_t c = 0; c < last - first; c++)
    for (int64_t b = rows; b < ld; b++) out[c * ld + b] = 0;
}

// relu(scale · (h − mean) / sqrt(variance + epsilon) + shift) of one channel.
struct Channel {
  float mean, inverse;
  Vec centre, scale, shift;
  Channel(const nrs_batch_norm &norm, int64_t c) {
    mean = norm.mean[c];
    inverse = 1.0f / sqrtf(norm.variance[c] + (float)norm.epsilon);
    centre = all(mean);
    scale = all(inverse * norm.scale[c]);
    shift = all(norm.shift[c]);
  }
  inline __attribute__((always_inline)) Vec at(Vec h) const { return fma(h - centre, scale, shift); }
};

// Mean and variance of h, whose sum is `total`; then out (rows), which has no more places than these.
static void normalise_channel(const nrs_batch_norm &norm, int64_t c, int64_t rows, Vec total,
                              const float *h, float *out) {
  float n = (float)rows, mean = sum(total) / n;
  Vec centre = all(mean), rest = zero(), squares = zero();
  int64_t whole = rows / LANES * LANES, b = 0;
  for (; b < whole; b += LANES) {
    Vec t = load(h + b) - centre;
    rest = rest + t;
    squares = fma(t, t, squares);
  }
  if (b < rows) {
    Vec t = where(first(rows - b), load(h + b) - centre);
    rest = rest + t;
    squares = fma(t, t, squares);
  }
  // What the sum of many numbers has lost.
  float off = sum(rest) / n, variance = sum(squares) / n - off * off;
  norm.mean[c] = mean + off;
  norm.variance[c] = variance > 0 || variance != variance ? variance : 0;
  Channel channel(norm, c);
  for (b = 0; b < whole; b += LANES) store(out + b, relu(channel.at(load(h + b))));
  if (b < rows) store_some(out + b, relu(channel.at(load(h + b))), rows - b);
}

// From the gradient of the output, which has no more than `rows` places, to that of h: d, filled up.
static void normalise_channel_backward(const nrs_batch_norm &norm, int64_t c, int64_t rows,
                                       const float *h, const float *gradient, float *d,
                                       float *of_scale, float *of_shift) {
  Channel channel(norm, c);
  Vec inverse = all(channel.inverse), total = zero(), along = zero();
  int64_t whole = rows / LANES * LANES, b = 0;
  for (; b < whole; b += LANES) {
    Vec x = load(h + b), through = where(above(channel.at(x), zero()), load(gradient + b));
    store(d + b, through);
    total = total + through;
    along = fma(through, (x - channel.centre) * inverse, along);
  }
  if (b < rows) {
    Vec x = load(h + b);
    Vec through = where(above(channel.at(x), zero()), load_some(gradient + b, rows - b));
    store(d + b, through);
    total = total + through;
    along = fma(through, (x - channel.centre) * inverse, along);
  }
  of_shift[c] = sum(total);
  of_scale[c] = sum(along);
  float n = (float)rows, factor = norm.scale[c] * channel.inverse;
  Vec f = all(factor), by_mean = all(-factor * of_shift[c] / n),
      by_deviation = all(-factor * of_scale[c] / n * channel.inverse);
  for (b = 0; b < whole; b += LANES)
    store(d + b, fma(load(h + b) - channel.centre, by_deviation, fma(load(d + b), f, by_mean)));
  if (b < rows) {
    Vec moved = fma(load(h + b) - channel.centre, by_deviation, fma(load(d + b), f, by_mean));
    store(d + b, where(first(rows - b), moved));
  }
}

// The gradient of a channel's output as it is, filled up.
static void copy_channel(int64_t rows, const float *gradient, float *d) {
  for (int64_t b = 0; b < rows; b += LANES) store(d + b, load_some(gradient + b, rows - b));
}

// v + bias, maybe relu, of a map.
struct Mapped {
  float *out;
  int64_t step, rows;
  const float *bias;
  bool positive;
  inline __attribute__((always_inline)) void operator()(int64_t c, int64_t b, Vec v) const {
    if (bias) v = v + all(bias[c]);
    store_some(out + c * step + b, positive ? relu(v) : v, rows - b);
  }
};

}  // namespace
#endif
