// The subspaces' map in training. Inputs that are mostly read together, such as the bins of a number,
// are tiles: the subspaces that read one are a small dense product. Tiles are made of the features
// where they are needed, as that takes less time than reading them from memory. All other inputs are
// columns that are read one by one.
#ifndef NRS_SUBSPACES_H
#define NRS_SUBSPACES_H
#include "engine.h"
#include "product.h"

namespace {

#if defined(__AVX512F__)
constexpr int READERS = 12;
#else
constexpr int READERS = 6;
#endif

// A member's subspaces and their weights, and the rows of a batch: x (rows, features), columns
// (columns, rows).
struct Subspaces {
  const nrs_forest &f;
  int64_t k;
  const float *x, *columns;
  int64_t rows;
  const float *weight;
  const nrs_reading &r = f.reading;
  int64_t ld = stride(rows), groups = f.widths[0];
  const int64_t *first = r.first + k * r.tiles, *lone = r.lone_first + k * groups;
  const float *gain = f.gain + k * groups * f.size;

  int64_t n_lone(int64_t g) const { return lone[g + 1] - lone[g]; }
  int64_t readers(int64_t t) const { return first[t + 1] - first[t]; }
};

NRS_INLINE Vec bin(Vec x, Vec low, Vec rate, bool level) {
  Vec passed = (x - low) * rate;
  if (level) passed = all(1.0f) - absolute(passed);
  return min(all(1.0f), relu(passed));
}

// A tile as (inputs, rows).
static const float *tile_of_columns(const Subspaces &s, int64_t t, float *out) {
  const float *x = s.columns + s.r.start[t] * s.ld, *low = s.r.low + t * LANES;
  const float *rate = s.r.rate + t * LANES;
  if (s.r.kind[t] == 0) return x;
  for (int64_t i = 0; i < s.r.length[t]; i++)
    for (int64_t b = 0; b < s.rows; b += LANES) {
      Vec own = bin(load(x + b), all(low[i]), all(rate[i]), s.r.kind[t] == 2);
      store(out + i * s.ld + b, where(first(s.rows - b), own));
    }
  return out;
}

// A tile as (rows, 16).
static void tile_of_rows(const Subspaces &s, int64_t t, float *out) {
  Vec low = load(s.r.low + t * LANES), rate = load(s.r.rate + t * LANES);
  const float *x = s.x + s.r.start[t], *column = s.columns + s.r.start[t] * s.ld;
  int64_t length = s.r.length[t], features = s.f.features;
  if (s.r.kind[t] == 0)
    for (int64_t b = 0; b < s.rows; b++)
      store(out + b * LANES, load_some(x + b * features, length));
  else
    for (int64_t b = 0; b < s.rows; b++)
      store(out + b * LANES, bin(all(column[b]), low, rate, s.r.kind[t] == 2));
}

// Sums are added to the row of each reader.
struct Added {
  float *out;
  int64_t ld;
  const int32_t *subspace;
  inline __attribute__((always_inline)) void operator()(int64_t i, int64_t j, Vec v) const {
    float *p = out + subspace[i] * ld + j;
    store(p, load(p) + v);
  }
};

// What subspace g reads one by one.
static void lone_forward(const Subspaces &s, int64_t g, float *out) {
  const int32_t *place = s.r.lone_place + s.lone[g], *column = s.r.lone_column + s.lone[g];
  int64_t wide = padded(s.rows);
  for (int64_t b = 0; b < wide; b += 4 * LANES) {
    // Of the last rows only those that are there.
    int64_t o1 = b + LANES < wide ? LANES : 0, o2 = b + 2 * LANES < wide ? 2 * LANES : 0,
            o3 = b + 3 * LANES < wide ? 3 * LANES : 0;
    Vec c0 = zero(), c1 = zero(), c2 = zero(), c3 = zero();
    for (int64_t i = 0; i < s.n_lone(g); i++) {
      Vec v = all(s.weight[place[i]] * s.gain[place[i]]);
      const float *own = s.columns + column[i] * s.ld + b;
      c0 = fma(v, load(own), c0);
      c1 = fma(v, load(own + o1), c1);
      c2 = fma(v, load(own + o2), c2);
      c3 = fma(v, load(own + o3), c3);
    }
    store(out + b, c0);
    if (o1) store(out + b + o1, c1);
    if (o2) store(out + b + o2, c2);
    if (o3) store(out + b + o3, c3);
  }
}

static void lone_backward(const Subspaces &s, int64_t g, const float *d, float *gradient) {
  const int32_t *place = s.r.lone_place + s.lone[g], *column = s.r.lone_column + s.lone[g];
  int64_t count = s.n_lone(g);
  for (int64_t i = 0; i < count; i += 4) {
    const float *own[4];
    for (int64_t q = 0; q < 4; q++)
      own[q] = s.columns + column[i + q < count ? i + q : count - 1] * s.ld;
    Vec c0 = zero(), c1 = zero(), c2 = zero(), c3 = zero();
    for (int64_t b = 0; b < s.rows; b += LANES) {
      Vec v = load(d + b);
      c0 = fma(v, load(own[0] + b), c0);
      c1 = fma(v, load(own[1] + b), c1);
      c2 = fma(v, load(own[2] + b), c2);
      c3 = fma(v, load(own[3] + b), c3);
    }
    float found[4];
    sums(c0, c1, c2, c3, found);
    for (int64_t q = 0; q < 4 && i + q < count; q++)
      gradient[place[i + q]] = found[q] * s.gain[place[i + q]];
  }
}

// h (groups, rows) = weight · gain · the inputs of each subspace. `packed` holds 16 numbers for each
// reader of a member.
static void map_forward(const Subspaces &s, float *packed, float *tile, float *h) {
  for (int64_t g = 0; g < s.groups; g++) lone_forward(s, g, h + g * s.ld);
  for (int64_t t = 0; t < s.r.tiles; t++) {
    for (int64_t i = 0; i < s.readers(t); i++) {
      uint32_t lanes = (uint32_t)s.r.lanes[s.first[t] + i];
      int64_t place = s.r.place[s.first[t] + i];
      store(packed + i * LANES,
            load_into(lanes, s.weight + place) * load_into(lanes, s.gain + place));
    }
    product(s.readers(t), padded(s.rows), s.r.length[t], packed, LANES, 1,
            tile_of_columns(s, t, tile), s.ld, Added{h, s.ld, s.r.subspace + s.first[t]});
  }
}

// Gradients of the weights of R readers, from the i-th on, of a tile (rows, 16).
template <int R>
NRS_INLINE void tile_backward(const Subspaces &s, int64_t i, const float *tile, const float *d,
                              float *gradient) {
  const float *own[R];
  Vec c[R];
#pragma GCC unroll 12
  for (int q = 0; q < R; q++) own[q] = d + s.r.subspace[i + q] * s.ld, c[q] = zero();
  for (int64_t b = 0; b < s.rows; b++) {
    Vec v = load(tile + b * LANES);
#pragma GCC unroll 12
    for (int q = 0; q < R; q++) c[q] = fma(all(own[q][b]), v, c[q]);
  }
#pragma GCC unroll 12
  for (int q = 0; q < R; q++) {
    int64_t place = s.r.place[i + q];
    uint32_t lanes = (uint32_t)s.r.lanes[i + q];
    store_from(lanes, gradient + place, c[q] * load_into(lanes, s.gain + place));
  }
}

// Gradients of the weights that are used, (groups, size).
static void map_backward(const Subspaces &s, const float *d, float *tile, float *gradient) {
  for (int64_t g = 0; g < s.groups; g++) lone_backward(s, g, d + g * s.ld, gradient);
  for (int64_t t = 0; t < s.r.tiles; t++) {
    int64_t i = s.first[t], end = s.first[t + 1];
    if (i < end) tile_of_rows(s, t, tile);
    // The last of many begin earlier: some are found twice, which takes less time than one by one.
    for (; end - s.first[t] >= READERS && i < end; i += READERS)
      tile_backward<READERS>(s, i + READERS <= end ? i : end - READERS, tile, d, gradient);
    for (; i + 4 <= end; i += 4) tile_backward<4>(s, i, tile, d, gradient);
    for (; i < end; i++) tile_backward<1>(s, i, tile, d, gradient);
  }
}

}  // namespace
#endif
