// Subspaces of several outputs each: products that read their inputs by index. The map is kept for
// the way back, as it costs more than to read it again.
#ifndef NRS_GROUPED_H
#define NRS_GROUPED_H
#include "subspace_layer.h"

namespace {

// Blocks whose sums stay in registers: rows of the map, and features of the gradient of weights.
#if defined(__AVX512F__)
constexpr int MAP_ROWS = 8, MAP_VECTORS = 2, WEIGHT_ROWS = 12;
#else
constexpr int MAP_ROWS = 4, MAP_VECTORS = 1, WEIGHT_ROWS = 6;
#endif

// R outputs of one subspace for N vectors of rows.
template <int R, int N, class End>
NRS_INLINE void map_block(const float *weight, int64_t size, const int64_t *index,
                          const float *columns, int64_t ld, int64_t o, int64_t b, const End &end) {
  Vec c[R][N];
#pragma GCC unroll 16
  for (int r = 0; r < R; r++)
#pragma GCC unroll 2
    for (int n = 0; n < N; n++) c[r][n] = zero();
  const float *w = weight + o * size;
  for (int64_t f = 0; f < size; f++) {
    const float *column = columns + index[f] * ld + b;
    Vec x[N];
#pragma GCC unroll 2
    for (int n = 0; n < N; n++) x[n] = load(column + LANES * n);
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
      Vec v = all(w[r * size + f]);
#pragma GCC unroll 2
      for (int n = 0; n < N; n++) c[r][n] = fma(v, x[n], c[r][n]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; r++)
#pragma GCC unroll 2
    for (int n = 0; n < N; n++) end(o + r, b + LANES * n, c[r][n]);
}

template <int N, class End>
static void map_strip(const nrs_layer &l, int64_t g, int64_t ld, int64_t b, const End &end) {
  const float *weight = l.weight + g * l.outputs * l.size;
  const int64_t *index = l.index + g * l.size;
  int64_t o = 0;
  for (; o + MAP_ROWS <= l.outputs; o += MAP_ROWS)
    map_block<MAP_ROWS, N>(weight, l.size, index, l.columns, ld, o, b, end);
  if (MAP_ROWS > 4)
    for (; o + 4 <= l.outputs; o += 4)
      map_block<4, N>(weight, l.size, index, l.columns, ld, o, b, end);
  for (; o < l.outputs; o++) map_block<1, N>(weight, l.size, index, l.columns, ld, o, b, end);
}

// The map of one subspace, given to `end` by its output, row and vector.
template <class End>
static void map_group(const nrs_layer &l, int64_t g, int64_t ld, int64_t wide, const End &end) {
  int64_t b = 0;
  for (; b + MAP_VECTORS * LANES <= wide; b += MAP_VECTORS * LANES)
    map_strip<MAP_VECTORS>(l, g, ld, b, end);
  for (; b < wide; b += LANES) map_strip<1>(l, g, ld, b, end);
}

// Training: map (kept in h), statistics and output of the groups from `first` to before `last`.
static void grouped_train(const nrs_layer &l, const nrs_batch_norm &norm, int64_t first,
                          int64_t last, float *h, float *out) {
  int64_t ld = stride(l.rows), wide = padded(l.rows);
  for (int64_t g = first; g < last; g++) {
    map_group(l, g, ld, wide, Store{h + g * l.outputs * ld, ld});
    for (int64_t c = g * l.outputs; c < (g + 1) * l.outputs; c++) {
      Vec total = zero();
      for (int64_t b = 0; b < wide; b += LANES) total = total + load(h + c * ld + b);
      store(h + c * ld + wide, zero());
      normalise_channel(norm, c, l.rows, total, h + c * ld, out + c * l.rows);
    }
  }
}

// The gradient of R features' weights, for 16 N outputs: sums over the rows of columns and dt.
template <int R, int N>
NRS_INLINE void weight_block(const float *columns, int64_t ld, const int64_t *index,
                             const float *dt, int64_t across, int64_t rows, int64_t f, int64_t o,
                             float *out) {
  Vec c[R][N];
  const float *column[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; r++) {
    column[r] = columns + index[f + r] * ld;
#pragma GCC unroll 2
    for (int n = 0; n < N; n++) c[r][n] = zero();
  }
  const float *d = dt + o;
  for (int64_t b = 0; b < rows; b++, d += across) {
    Vec x[N];
#pragma GCC unroll 2
    for (int n = 0; n < N; n++) x[n] = load(d + LANES * n);
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
      Vec v = all(column[r][b]);
#pragma GCC unroll 2
      for (int n = 0; n < N; n++) c[r][n] = fma(v, x[n], c[r][n]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; r++)
#pragma GCC unroll 2
    for (int n = 0; n < N; n++) store(out + (f + r) * across + o + LANES * n, c[r][n]);
}

template <int N>
static void weight_strip(const nrs_layer &l, const int64_t *index, int64_t ld, const float *dt,
                         int64_t across, int64_t o, float *out) {
  int64_t f = 0;
  for (; f + WEIGHT_ROWS <= l.size; f += WEIGHT_ROWS)
    weight_block<WEIGHT_ROWS, N>(l.columns, ld, index, dt, across, l.rows, f, o, out);
  for (; f + 4 <= l.size; f += 4)
    weight_block<4, N>(l.columns, ld, index, dt, across, l.rows, f, o, out);
  for (; f < l.size; f++) weight_block<1, N>(l.columns, ld, index, dt, across, l.rows, f, o, out);
}

// The gradient of R features of N vectors of rows, added to the columns that these are, one after the
// other: a subspace may read one twice.
template <int R, int N>
NRS_INLINE void input_block(const float *weight, int64_t size, int64_t outputs,
                            const int64_t *index, const float *d, int64_t ld, int64_t f, int64_t b,
                            float *columns) {
  Vec c[R][N];
  float *column[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; r++) {
    column[r] = columns + index[f + r] * ld + b;
#pragma GCC unroll 2
    for (int n = 0; n < N; n++) {
      c[r][n] = zero();
      __builtin_prefetch(column[r] + LANES * n, 1);
    }
  }
  const float *w = weight + f, *row = d + b;
  for (int64_t o = 0; o < outputs; o++, w += size, row += ld) {
    Vec x[N];
#pragma GCC unroll 2
    for (int n = 0; n < N; n++) x[n] = load(row + LANES * n);
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
      Vec v = all(w[r]);
#pragma GCC unroll 2
      for (int n = 0; n < N; n++) c[r][n] = fma(v, x[n], c[r][n]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; r++)
#pragma GCC unroll 2
    for (int n = 0; n < N; n++) {
      float *at = column[r] + LANES * n;
      store(at, load(at) + c[r][n]);
    }
}

template <int N>
static void input_strip(const nrs_layer &l, const float *weight, const int64_t *index,
                        const float *d, int64_t ld, int64_t b, float *columns) {
  int64_t f = 0;
  for (; f + WEIGHT_ROWS <= l.size; f += WEIGHT_ROWS)
    input_block<WEIGHT_ROWS, N>(weight, l.size, l.outputs, index, d, ld, f, b, columns);
  for (; f + 4 <= l.size; f += 4)
    input_block<4, N>(weight, l.size, l.outputs, index, d, ld, f, b, columns);
  for (; f < l.size; f++)
    input_block<1, N>(weight, l.size, l.outputs, index, d, ld, f, b, columns);
}

static int64_t grouped_size(const nrs_layer &l) {
  int64_t across = padded(l.outputs);
  return across * stride(l.rows) + padded(l.rows) * across + l.size * across;
}

static void grouped_backward(const nrs_layer &l, const nrs_batch_norm *norm, const float *h,
                             const nrs_gradients &g, int64_t first, int64_t last, float *memory) {
  int64_t ld = stride(l.rows), wide = padded(l.rows), across = padded(l.outputs);
  float *d = memory, *dt = d + across * ld, *turned = dt + wide * across;
  bool by_row = g.output_step == 1;
  // Of outputs up to the next multiple of 16.
  memset(d + l.outputs * ld, 0, (across - l.outputs) * ld * sizeof(float));
  for (int64_t k = first; k < last; k++) {
    int64_t begin = k * l.outputs, end = begin + l.outputs;
    const int64_t *index = l.index + k * l.size;
    const float *weight = l.weight + begin * l.size;
    if (by_row) columns_of(g.of_output, g.row_step, l.rows, begin, end, d, ld);
    for (int64_t c = begin; c < end; c++) {
      float *own = d + (c - begin) * ld;
      const float *given = by_row ? own : g.of_output + c * g.output_step;
      if (norm)
        normalise_channel_backward(*norm, c, l.rows, h + c * ld, given, own, g.of_scale, g.of_shift);
      else if (!by_row)
        copy_channel(l.rows, given, own);
    }
    transpose(d, ld, l.outputs, l.rows, dt, across);
    int64_t o = 0;
    for (; o + MAP_VECTORS * LANES <= across; o += MAP_VECTORS * LANES)
      weight_strip<MAP_VECTORS>(l, index, ld, dt, across, o, turned);
    for (; o < across; o += LANES) weight_strip<1>(l, index, ld, dt, across, o, turned);
    transpose_exact(turned, across, l.size, l.outputs, g.of_weight + begin * l.size, l.size);
    if (!g.of_columns) continue;
    int64_t b = 0;
    for (; b + MAP_VECTORS * LANES <= wide; b += MAP_VECTORS * LANES)
      input_strip<MAP_VECTORS>(l, weight, index, d, ld, b, g.of_columns);
    for (; b < wide; b += LANES) input_strip<1>(l, weight, index, d, ld, b, g.of_columns);
  }
}

// A single row; `cells` holds what one subspace reads.
static void grouped_row(const nrs_layer &l, const float *x, const float *bias, bool positive,
                        float *cells, float *out) {
  int64_t wide = padded(l.size);
  for (int64_t b = l.size; b < wide; b++) cells[b] = 0;
  for (int64_t g = 0; g < l.groups; g++) {
    const int64_t *index = l.index + g * l.size;
    for (int64_t f = 0; f < l.size; f++) cells[f] = x[index[f]];
    for (int64_t c = g * l.outputs; c < (g + 1) * l.outputs; c++) {
      const float *weight = l.weight + c * l.size;
      Vec one = zero(), other = zero();
      int64_t f = 0;
      for (; f + 2 * LANES <= l.size; f += 2 * LANES) {
        one = fma(load(weight + f), load(cells + f), one);
        other = fma(load(weight + f + LANES), load(cells + f + LANES), other);
      }
      for (; f < l.size; f += LANES)
        one = fma(load_some(weight + f, l.size - f), load(cells + f), one);
      float y = sum(one + other) + (bias ? bias[c] : 0);
      out[c] = positive && y < 0 ? 0 : y;
    }
  }
}

}  // namespace
#endif
