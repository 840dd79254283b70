// The product of two matrices, and transposition.
#ifndef NRS_PRODUCT_H
#define NRS_PRODUCT_H
#include "vectors.h"

namespace {

// Rows of a block of two vectors, and of one, whose sums stay in registers.
#if defined(__AVX512F__)
constexpr int TALL = 12, TALL_SINGLE = 16;
#else
constexpr int TALL = 2, TALL_SINGLE = 6;
#endif

// One block: each number is a sum over k in ascending order, whatever the block.
template <int R, int N, class End>
NRS_INLINE void block(const float *a, int64_t across, int64_t along, const float *b, int64_t ldb,
                      int64_t depth, int64_t i, int64_t j, const End &end) {
  Vec c[R][N];
#pragma GCC unroll 16
  for (int r = 0; r < R; r++)
#pragma GCC unroll 2
    for (int n = 0; n < N; n++) c[r][n] = zero();
  const float *row = a + i * across, *column = b + j;
  for (int64_t k = 0; k < depth; k++) {
    Vec loaded[N];
#pragma GCC unroll 2
    for (int n = 0; n < N; n++) loaded[n] = load(column + LANES * n);
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
      Vec x = all(row[r * across]);
#pragma GCC unroll 2
      for (int n = 0; n < N; n++) c[r][n] = fma(x, loaded[n], c[r][n]);
    }
    row += along;
    column += ldb;
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; r++)
#pragma GCC unroll 2
    for (int n = 0; n < N; n++) end(i + r, j + LANES * n, c[r][n]);
}

template <int N, class End>
static void panel(int64_t rows, int64_t depth, const float *a, int64_t across, int64_t along,
                  const float *b, int64_t ldb, int64_t j, const End &end) {
  constexpr int R = N == 1 ? TALL_SINGLE : TALL;
  int64_t i = 0;
  for (; i + R <= rows; i += R) block<R, N>(a, across, along, b, ldb, depth, i, j, end);
  if (R > 4)
    for (; i + 4 <= rows; i += 4) block<4, N>(a, across, along, b, ldb, depth, i, j, end);
  for (; i < rows; i++) block<1, N>(a, across, along, b, ldb, depth, i, j, end);
}

// a (rows, depth) · b (depth, columns), given to `end` vector by vector. Element (i, k) of a is at
// i * across + k * along; columns is a multiple of 16.
template <class End>
static void product(int64_t rows, int64_t columns, int64_t depth, const float *a, int64_t across,
                    int64_t along, const float *b, int64_t ldb, const End &end) {
  int64_t j = 0;
#if defined(__AVX512F__)
  for (; j + 2 * LANES <= columns; j += 2 * LANES)
    panel<2>(rows, depth, a, across, along, b, ldb, j, end);
#endif
  for (; j < columns; j += LANES) panel<1>(rows, depth, a, across, along, b, ldb, j, end);
}

struct Store {
  float *out;
  int64_t ld;
  inline __attribute__((always_inline)) void operator()(int64_t i, int64_t j, Vec v) const { store(out + i * ld + j, v); }
};

// relu(v + shift of the row), and without the relu.
struct Shifted {
  float *out;
  int64_t ld;
  const float *shift;
  bool positive;
  inline __attribute__((always_inline)) void operator()(int64_t i, int64_t j, Vec v) const {
    v = v + all(shift[i]);
    store(out + i * ld + j, positive ? relu(v) : v);
  }
};

// in (rows, columns) as (columns, rows); both are read and written to multiples of 16.
static void transpose(const float *in, int64_t ld, int64_t rows, int64_t columns, float *out,
                      int64_t out_ld) {
  for (int64_t r = 0; r < padded(rows); r += 4)
    for (int64_t c = 0; c < padded(columns); c += 4)
      transpose4(in + r * ld + c, ld, out + c * out_ld + r, out_ld);
}

}  // namespace
#endif
