// A folded forest applied to rows, a block of them at a time. A row's outputs do not depend on the
// rows next to it: every number is a sum in an order of its own.
#ifndef NRS_PREDICT_H
#define NRS_PREDICT_H
#include "layer.h"
#include "product.h"

namespace {

constexpr int64_t BLOCK = 128;

static int64_t widest_layer(const nrs_folded &f) {
  int64_t widest = padded(f.outputs);
  for (int64_t l = 0; l < f.layers; l++)
    widest = padded(f.widths[l]) > widest ? padded(f.widths[l]) : widest;
  return widest;
}

static void predict_block(const nrs_folded &f, int64_t k, const float *inputs, int64_t rows,
                          float *one, float *other, float *out, int64_t out_ld) {
  int64_t ld = stride(rows), wide = padded(rows), width = f.widths[0], at = k * width * f.size;
  map_forward(width, f.size, f.inputs, f.index + at, f.weight + at, nullptr, inputs, ld, wide,
              Shifted{one, ld, f.shifts[0] + k * width, true});
  for (int64_t l = 0; l + 1 < f.layers; l++) {
    int64_t after = f.widths[l + 1];
    product(after, wide, width, f.hidden[l] + k * after * width, width, 1, one, ld,
            Shifted{other, ld, f.shifts[l + 1] + k * after, true});
    float *swap = one;
    one = other;
    other = swap;
    width = after;
  }
  product(f.outputs, wide, width, f.out_weight + k * f.outputs * width, width, 1, one, ld,
          Shifted{other, ld, f.out_bias + k * f.outputs, false});
  for (int64_t o = 0; o < f.outputs; o++)
    memcpy(out + o * out_ld, other + o * ld, rows * sizeof(float));
}

}  // namespace
#endif
