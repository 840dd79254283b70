// The layers of a member: inputs and their bins, the subspaces' map in predictions, batch
// normalisation with ReLU and dropout, forward and backward. Activations are (units, rows): a unit's rows lie side by side,
// filled up with zeros to a multiple of 16.
#ifndef NRS_LAYER_H
#define NRS_LAYER_H
#include <math.h>

#include "engine.h"
#include "step.h"

namespace {

// Rows (rows, features) as columns, then their bins, then zeros.
static void make_inputs(int64_t features, int64_t bins, int64_t levels, const int64_t *source,
                        const float *low, const float *rate, const float *rows, int64_t row_step,
                        int64_t n_rows, float *out, int64_t ld) {
  int64_t wide = padded(n_rows);
  for (int64_t b = 0; b < wide; b += 4) {
    int64_t c = 0;
    if (b + 4 <= n_rows)
      for (; c + 4 <= features; c += 4)
        transpose4(rows + b * row_step + c, row_step, out + c * ld + b, ld);
    for (; c < features; c++)
      for (int64_t i = b; i < b + 4; i++) out[c * ld + i] = i < n_rows ? rows[i * row_step + c] : 0;
  }
  for (int64_t t = 0; t < bins; t++) {
    const float *x = out + source[t] * ld;
    float *o = out + (features + t) * ld;
    bool level = t >= bins - levels;
    for (int64_t b = 0; b < wide; b += LANES) {
      Vec passed = (load(x + b) - all(low[t])) * all(rate[t]);
      if (level) passed = all(1.0f) - absolute(passed);
      store(o + b, where(first(n_rows - b), min(all(1.0f), relu(passed))));
    }
  }
  for (int64_t b = 0; b < wide; b += LANES) store(out + (features + bins) * ld + b, zero());
}

// Inputs of a subspace before it is filled up with the last input, which is 0.
static int64_t inputs_read(const int64_t *index, int64_t size, int64_t inputs) {
  while (size > 0 && index[size - 1] == inputs - 1) size--;
  return size;
}

// out (groups, rows) = weight · the inputs of each subspace. `scale` multiplies weights, or is null.
template <class End>
static void map_forward(int64_t groups, int64_t size, int64_t inputs, const int64_t *index,
                        const float *weight, const float *scale, const float *x, int64_t ld,
                        int64_t wide, const End &end) {
  for (int64_t b = 0; b < wide; b += 4 * LANES) {
    // Of the last columns only those that are there.
    int64_t o1 = b + LANES < wide ? LANES : 0, o2 = b + 2 * LANES < wide ? 2 * LANES : 0,
            o3 = b + 3 * LANES < wide ? 3 * LANES : 0;
    for (int64_t g = 0; g < groups; g++) {
      const int64_t *own = index + g * size;
      const float *w = weight + g * size, *s = scale ? scale + g * size : nullptr;
      int64_t n = inputs_read(own, size, inputs);
      Vec c0 = zero(), c1 = zero(), c2 = zero(), c3 = zero();
      for (int64_t f = 0; f < n; f++) {
        Vec v = all(s ? w[f] * s[f] : w[f]);
        const float *row = x + own[f] * ld + b;
        c0 = fma(v, load(row), c0);
        c1 = fma(v, load(row + o1), c1);
        c2 = fma(v, load(row + o2), c2);
        c3 = fma(v, load(row + o3), c3);
      }
      end(g, b, c0);
      if (o1) end(g, b + o1, c1);
      if (o2) end(g, b + o2, c2);
      if (o3) end(g, b + o3, c3);
    }
  }
}

// Which units are kept: bits of a pool from `begin` on; all without a pool.
struct Dropout {
  const uint8_t *pool;
  int64_t begin;
  float keep;
  inline __attribute__((always_inline)) Mask at(int64_t unit) const {
    int64_t bit = begin + unit;
    uint32_t bits;
    memcpy(&bits, pool + (bit >> 3), 4);
    return from_bits(bits >> (bit & 7) & 0xffffu);
  }
};

// The statistics of a normalisation in one batch.
struct Statistics { float *mean, *inverse; };

// relu(scale · (h − mean) / sqrt(variance + epsilon) + shift), then dropout. `at` is the member's
// first unit in the norm.
static void normalise(const nrs_norm &norm, int64_t at, int64_t width, int64_t rows, int64_t ld,
                      float epsilon, float momentum, const Dropout &dropout, const float *h,
                      float *out, Statistics found) {
  int64_t wide = padded(rows);
  float n = (float)rows;
  for (int64_t c = 0; c < width; c++, h += ld, out += ld) {
    Vec total = zero(), squares = zero();
    for (int64_t b = 0; b < wide; b += LANES) total = total + load(h + b);
    float mean = sum(total) / n;
    Vec centre = all(mean);
    for (int64_t b = 0; b < wide; b += LANES) {
      Vec t = where(first(rows - b), load(h + b) - centre);
      squares = fma(t, t, squares);
    }
    float variance = sum(squares) / n, inverse = 1.0f / sqrtf(variance + epsilon);
    found.mean[c] = mean;
    found.inverse[c] = inverse;
    norm.mean[at + c] += momentum * (mean - norm.mean[at + c]);
    norm.variance[at + c] += momentum * (variance * (n / (n - 1)) - norm.variance[at + c]);
    Vec scale = all(inverse * norm.scale.value[at + c]), shift = all(norm.shift.value[at + c]);
    for (int64_t b = 0; b < wide; b += LANES) {
      Vec y = where(first(rows - b), relu(fma(load(h + b) - centre, scale, shift)));
      if (dropout.pool) y = where(dropout.at(c * rows + b), y * all(dropout.keep));
      store(out + b, y);
    }
  }
}

// From the gradient of `out` to that of h, in place; then the norm's own parameters are updated.
static void normalise_backward(const nrs_norm &norm, int64_t at, int64_t width, int64_t rows,
                               int64_t ld, const Dropout &dropout, const Rates &rates,
                               const float *h, const float *out, Statistics found, float *d,
                               float *of_scale, float *of_shift) {
  int64_t wide = padded(rows);
  float n = (float)rows;
  Vec keep = all(dropout.pool ? dropout.keep : 1.0f);
  for (int64_t c = 0; c < width; c++, h += ld, out += ld, d += ld) {
    Vec centre = all(found.mean[c]), inverse = all(found.inverse[c]), total = zero(),
        along = zero();
    for (int64_t b = 0; b < wide; b += LANES) {
      Vec through = where(above(load(out + b), zero()), load(d + b) * keep);
      store(d + b, through);
      total = total + through;
      along = fma(through, (load(h + b) - centre) * inverse, along);
    }
    of_shift[c] = sum(total);
    of_scale[c] = sum(along);
    float factor = norm.scale.value[at + c] * found.inverse[c];
    Vec f = all(factor), by_mean = all(-factor * of_shift[c] / n),
        by_deviation = all(-factor * of_scale[c] / n * found.inverse[c]);
    for (int64_t b = 0; b < wide; b += LANES) {
      Vec moved = fma(load(h + b) - centre, by_deviation, fma(load(d + b), f, by_mean));
      store(d + b, where(first(rows - b), moved));
    }
  }
  update(rates, norm.scale, at, of_scale, 1, width, width);
  update(rates, norm.shift, at, of_shift, 1, width, width);
  if (norm.average_mean) {
    follow(norm.average_mean + at, norm.mean + at, width, rates.averaging);
    follow(norm.average_variance + at, norm.variance + at, width, rates.averaging);
  }
}

}  // namespace
#endif
