// Gradients of a folded forest's outputs by its inputs, a block of rows at a time.
#ifndef NRS_SLOPES_H
#define NRS_SLOPES_H
#include "predict.h"

namespace {

constexpr int64_t MOST_LAYERS = 16;

// Where the activation is above 0.
struct Through {
  float *out;
  const float *active;
  int64_t ld;
  inline __attribute__((always_inline)) void operator()(int64_t i, int64_t j, Vec v) const {
    store(out + i * ld + j, where(above(load(active + i * ld + j), zero()), v));
  }
};

static int64_t slopes_size(const nrs_folded &f, int64_t directions) {
  return (f.inputs * (1 + directions) + (f.layers + 2) * widest_layer(f)) * stride(BLOCK);
}

// Adds the inputs' share in a member's gradients of its subspaces, d (groups, rows).
static void map_slopes(const nrs_folded &f, int64_t at, const float *d, int64_t ld, int64_t wide,
                       float *out) {
  for (int64_t g = 0; g < f.widths[0]; g++, d += ld) {
    const int64_t *own = f.index + at + g * f.size;
    const float *w = f.weight + at + g * f.size;
    int64_t count = inputs_read(own, f.size, f.inputs);
    for (int64_t i = 0; i < count; i++)
      for (int64_t b = 0; b < wide; b += LANES) {
        float *o = out + own[i] * ld + b;
        store(o, fma(all(w[i]), load(d + b), load(o)));
      }
  }
}

// One member, from the inputs of a block of rows: for each of the directions its share is added to
// `out` (directions, inputs, rows). Gradients are (directions, K, outputs, n_rows).
static void slopes_block(const nrs_folded &f, int64_t k, int64_t directions, const float *inputs,
                         int64_t rows, const float *gradients, int64_t n_rows, float *memory,
                         float *out) {
  int64_t ld = stride(rows), wide = padded(rows), width = f.widths[0], at = k * width * f.size;
  int64_t layer = widest_layer(f) * stride(BLOCK);
  float *active[MOST_LAYERS], *d[2];
  for (int64_t l = 0; l < f.layers; l++) active[l] = memory + l * layer;
  for (int64_t i = 0; i < 2; i++) d[i] = memory + (f.layers + i) * layer;
  map_forward(width, f.size, f.inputs, f.index + at, f.weight + at, nullptr, inputs, ld, wide,
              Shifted{active[0], ld, f.shifts[0] + k * width, true});
  for (int64_t l = 0; l + 1 < f.layers; l++) {
    int64_t after = f.widths[l + 1];
    product(after, wide, width, f.hidden[l] + k * after * width, width, 1, active[l], ld,
            Shifted{active[l + 1], ld, f.shifts[l + 1] + k * after, true});
    width = after;
  }
  for (int64_t i = 0; i < directions; i++) {
    float *own = d[0], *other = d[1];
    const float *given = gradients + (i * f.members + k) * f.outputs * n_rows;
    for (int64_t o = 0; o < f.outputs; o++)
      for (int64_t b = 0; b < wide; b += LANES)
        store(own + o * ld + b, load_some(given + o * n_rows + b, rows - b));
    for (int64_t l = f.layers - 1, after = f.outputs; l >= 0; after = f.widths[l--]) {
      bool last = l + 1 == f.layers;
      const float *weight = (last ? f.out_weight : f.hidden[l]) + k * after * f.widths[l];
      product(f.widths[l], wide, after, weight, 1, f.widths[l], own, ld,
              Through{other, active[l], ld});
      float *swap = own;
      own = other;
      other = swap;
    }
    map_slopes(f, at, own, ld, wide, out + i * f.inputs * ld);
  }
}

}  // namespace
#endif
