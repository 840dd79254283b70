// Subspaces of one output each: gather, product, batch statistics and ReLU, one channel after the
// other. A channel's map stays in cache and is computed again on the way back.
#ifndef NRS_FUSED_H
#define NRS_FUSED_H
#include "subspace_layer.h"

namespace {

// Channels whose gradients become columns at once, where they come as rows.
constexpr int64_t CHANNELS = 32;
// Features of a subspace whose gradients are summed at once.
#if defined(__AVX512F__)
constexpr int SUMS = 9;
#else
constexpr int SUMS = 5;
#endif

// weight · the inputs of one subspace, given to `end` vector by vector. SIZE is how many there are,
// or 0 where only `size` says it.
template <int SIZE, class End>
NRS_INLINE void map_one(const int64_t *index, int64_t size, const float *weight,
                        const float *columns, int64_t ld, int64_t wide, const End &end) {
  const int64_t n = SIZE ? SIZE : size;
  int64_t b = 0;
  for (; b + 4 * LANES <= wide; b += 4 * LANES) {
    Vec c0 = zero(), c1 = zero(), c2 = zero(), c3 = zero();
#pragma GCC unroll 9
    for (int64_t f = 0; f < n; f++) {
      Vec w = all(weight[f]);
      const float *row = columns + index[f] * ld + b;
      c0 = fma(w, load(row), c0);
      c1 = fma(w, load(row + LANES), c1);
      c2 = fma(w, load(row + 2 * LANES), c2);
      c3 = fma(w, load(row + 3 * LANES), c3);
    }
    end(b, c0);
    end(b + LANES, c1);
    end(b + 2 * LANES, c2);
    end(b + 3 * LANES, c3);
  }
  for (; b < wide; b += LANES) {
    Vec c = zero();
    for (int64_t f = 0; f < n; f++) c = fma(all(weight[f]), load(columns + index[f] * ld + b), c);
    end(b, c);
  }
}

// Keeps the map, and its sum.
struct Summed {
  float *h;
  Vec *total;
  inline __attribute__((always_inline)) void operator()(int64_t b, Vec v) const {
    store(h + b, v);
    *total = *total + v;
  }
};

// The sums of d times N columns.
template <int N>
NRS_INLINE void sums_along(const int64_t *index, const float *d, const float *columns, int64_t ld,
                           int64_t wide, float *out) {
  Vec s[N];
  const float *column[N];
#pragma GCC unroll 9
  for (int n = 0; n < N; n++) {
    s[n] = zero();
    column[n] = columns + index[n] * ld;
  }
  for (int64_t b = 0; b < wide; b += LANES) {
    Vec v = load(d + b);
#pragma GCC unroll 9
    for (int n = 0; n < N; n++) s[n] = fma(v, load(column[n] + b), s[n]);
  }
#pragma GCC unroll 9
  for (int n = 0; n < N; n++) out[n] = sum(s[n]);
}

// Training: statistics and output of the channels from `first` to before `last`; h holds one channel.
template <int SIZE>
static void fused_train(const nrs_layer &l, const nrs_batch_norm &norm, int64_t first, int64_t last,
                        float *h, float *out) {
  int64_t ld = stride(l.rows), wide = padded(l.rows);
  for (int64_t c = first; c < last; c++) {
    Vec total = zero();
    map_one<SIZE>(l.index + c * l.size, l.size, l.weight + c * l.size, l.columns, ld, wide,
                  Summed{h, &total});
    normalise_channel(norm, c, l.rows, total, h, out + c * l.rows);
  }
}

// Floats of memory that the way back needs.
static int64_t fused_size(const nrs_layer &l) { return (CHANNELS + 1) * stride(l.rows); }

template <int SIZE>
static void fused_backward(const nrs_layer &l, const nrs_batch_norm *norm, const nrs_gradients &g,
                           int64_t first, int64_t last, float *memory) {
  int64_t ld = stride(l.rows), wide = padded(l.rows);
  float *block = memory, *h = memory + CHANNELS * ld;
  bool by_row = g.output_step == 1;
  for (int64_t at = first; at < last; at += CHANNELS) {
    int64_t end = at + CHANNELS < last ? at + CHANNELS : last;
    if (by_row) columns_of(g.of_output, g.row_step, l.rows, at, end, block, ld);
    for (int64_t c = at; c < end; c++) {
      const int64_t *index = l.index + c * l.size;
      const float *weight = l.weight + c * l.size;
      float *d = block + (c - at) * ld, *of_weight = g.of_weight + c * l.size;
      const float *given = by_row ? d : g.of_output + c * g.output_step;
      if (norm) {
        Vec total = zero();
        map_one<SIZE>(index, l.size, weight, l.columns, ld, wide, Summed{h, &total});
        normalise_channel_backward(*norm, c, l.rows, h, given, d, g.of_scale, g.of_shift);
      } else if (!by_row) {
        copy_channel(l.rows, given, d);
      }
      int64_t f = 0;
      for (; f + SUMS <= l.size; f += SUMS)
        sums_along<SUMS>(index + f, d, l.columns, ld, wide, of_weight + f);
      for (; f + 4 <= l.size; f += 4) sums_along<4>(index + f, d, l.columns, ld, wide, of_weight + f);
      for (; f < l.size; f++) sums_along<1>(index + f, d, l.columns, ld, wide, of_weight + f);
      if (!g.of_columns) continue;
      // One feature after the other: a subspace may read one twice.
      for (f = 0; f < l.size; f++) {
        Vec w = all(weight[f]);
        float *column = g.of_columns + index[f] * ld;
        // The next one, which lies elsewhere, is fetched meanwhile.
        const float *next = g.of_columns + index[f + 1 < l.size ? f + 1 : f] * ld;
        for (int64_t b = 0; b < wide; b += LANES) {
          __builtin_prefetch(next + b, 1);
          store(column + b, fma(w, load(d + b), load(column + b)));
        }
      }
    }
  }
}

// A single row.
static void fused_row(const nrs_layer &l, const float *x, const float *bias, bool positive,
                      float *out) {
  for (int64_t c = 0; c < l.groups; c++) {
    const int64_t *index = l.index + c * l.size;
    const float *weight = l.weight + c * l.size;
    float one = bias ? bias[c] : 0, other = 0;
    int64_t f = 0;
    for (; f + 2 <= l.size; f += 2) {
      one = __builtin_fmaf(weight[f], x[index[f]], one);
      other = __builtin_fmaf(weight[f + 1], x[index[f + 1]], other);
    }
    if (f < l.size) one = __builtin_fmaf(weight[f], x[index[f]], one);
    float y = one + other;
    out[c] = positive && y < 0 ? 0 : y;
  }
}

}  // namespace
#endif
