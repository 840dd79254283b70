// The library: the functions of engine.h. It is compiled once for each instruction set.
#include "engine.h"

#include <cpuid.h>

#include "forest.h"
#include "fused.h"
#include "grouped.h"
#include "predict.h"
#include "slopes.h"

#define NRS_EXPORT extern "C" __attribute__((visibility("default")))

NRS_EXPORT int64_t nrs_version(void) { return 3; }

NRS_EXPORT const char *nrs_instructions(void) {
#if defined(__AVX512F__)
  return "avx512";
#else
  return "avx2";
#endif
}

// In whole numbers only: a processor without these instructions runs this function too.
NRS_EXPORT int nrs_runs_here(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
  // FMA, and an operating system that keeps the wide registers.
  if (!(c & (1u << 12)) || !(c & (1u << 27))) return 0;
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
#if defined(__AVX512F__)
  // F, DQ, BW and VL.
  constexpr unsigned needed = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31, kept = 0xe6;
#else
  constexpr unsigned needed = 1u << 5, kept = 0x6;
#endif
  return (b & needed) == needed && (low & kept) == kept;
}

NRS_EXPORT int64_t nrs_columns_size(const nrs_forest *f, int64_t rows) {
  return (f->features + f->reading.bins + 1) * stride(rows);
}

NRS_EXPORT int64_t nrs_training_size(const nrs_forest *forest, int64_t rows) {
  return Memory(*forest, rows, nullptr).size;
}

NRS_EXPORT int64_t nrs_prediction_size(const nrs_folded *forest) {
  return (forest->inputs + 2 * widest_layer(*forest)) * stride(BLOCK);
}

NRS_EXPORT int64_t nrs_slopes_size(const nrs_folded *forest, int64_t directions) {
  return slopes_size(*forest, directions);
}

NRS_EXPORT void nrs_columns(const nrs_forest *f, const float *rows, int64_t n_rows, float *columns) {
  const nrs_reading &r = f->reading;
  make_inputs(f->features, r.bins, r.levels, r.column_source, r.column_low, r.column_rate, rows,
              f->features, n_rows, columns, stride(n_rows));
}

NRS_EXPORT void nrs_train(const nrs_forest *forest, const nrs_settings *settings,
                          const nrs_step *steps, int64_t n_steps, int64_t first, int64_t last,
                          int phases, float *memory, int64_t memory_step) {
  for (int64_t k = first; k < last; k++) {
    float *own = memory + (k - first) * memory_step;
    Member member{*forest, *settings, k, Memory(*forest, settings->capacity, own)};
    for (int64_t i = 0; i < n_steps; i++) member.take_step(steps[i], phases);
  }
}

NRS_EXPORT void nrs_predict(const nrs_folded *f, const float *rows, int64_t n_rows, int64_t first,
                            int64_t last, const int64_t *chosen, int64_t n_chosen, float *outputs,
                            float *memory) {
  int64_t layer = widest_layer(*f) * stride(BLOCK);
  float *one = memory, *other = one + layer, *inputs = other + layer;
  for (int64_t at = first; at < last; at += BLOCK) {
    int64_t n = last - at < BLOCK ? last - at : BLOCK;
    make_inputs(f->features, f->bins, f->levels, f->source, f->low, f->rate,
                rows + at * f->features, f->features, n, inputs, stride(n));
    for (int64_t i = 0; i < n_chosen; i++)
      predict_block(*f, chosen[i], inputs, n, one, other, outputs + i * f->outputs * n_rows + at,
                    n_rows);
  }
}

NRS_EXPORT void nrs_slopes(const nrs_folded *f, const float *rows, int64_t n_rows,
                           int64_t directions, const float *gradients, float *slopes,
                           float *memory) {
  float *inputs = memory, *found = inputs + f->inputs * stride(BLOCK);
  float *layers = found + directions * f->inputs * stride(BLOCK);
  for (int64_t at = 0; at < n_rows; at += BLOCK) {
    int64_t n = n_rows - at < BLOCK ? n_rows - at : BLOCK, ld = stride(n);
    make_inputs(f->features, f->bins, f->levels, f->source, f->low, f->rate,
                rows + at * f->features, f->features, n, inputs, ld);
    memset(found, 0, directions * f->inputs * ld * sizeof(float));
    for (int64_t k = 0; k < f->members; k++)
      slopes_block(*f, k, directions, inputs, n, gradients + at, n_rows, layers, found);
    for (int64_t i = 0; i < directions * f->inputs; i++)
      memcpy(slopes + i * n_rows + at, found + i * ld, n * sizeof(float));
  }
}

NRS_EXPORT int nrs_layer_reads_within(const int64_t *index, int64_t count, int64_t end) {
  uint64_t beyond = 0;
  for (int64_t i = 0; i < count; i++) beyond |= (uint64_t)index[i] >= (uint64_t)end;
  return !beyond;
}

NRS_EXPORT int64_t nrs_layer_stride(int64_t rows) { return stride(rows); }

// Rows of a map whose columns stay in a cache together; fewer would make of the output, which is
// written a column after the other, many short pieces.
static int64_t rows_at_once(const nrs_layer &l) {
  int64_t many = (1 << 18) / l.features / LANES * LANES;
  many = many < 512 ? 512 : many > 4096 ? 4096 : many;
  return many < l.rows ? many : l.rows;
}

NRS_EXPORT int64_t nrs_layer_map_size(const nrs_layer *l) {
  return l->rows == 1 ? padded(l->size) : l->features * stride(rows_at_once(*l));
}

NRS_EXPORT int64_t nrs_layer_backward_size(const nrs_layer *l) {
  return l->outputs == 1 ? fused_size(*l) : grouped_size(*l);
}

NRS_EXPORT void nrs_layer_columns(const float *x, int64_t row_step, int64_t rows,
                                  int64_t features, float *columns) {
  columns_of(x, row_step, rows, 0, features, columns, stride(rows));
}

NRS_EXPORT void nrs_layer_rows(const float *columns, int64_t rows, int64_t features, float *x) {
  transpose_exact(columns, stride(rows), features, rows, x, features);
}

NRS_EXPORT void nrs_layer_map(const nrs_layer *layer, const float *x, int64_t row_step,
                              const float *bias, int positive, int64_t first, int64_t last,
                              float *out, float *memory) {
  if (layer->rows == 1) {
    if (layer->outputs == 1) return fused_row(*layer, x, bias, positive, out);
    return grouped_row(*layer, x, bias, positive, memory, out);
  }
  nrs_layer l = *layer;
  l.columns = memory;
  int64_t block = rows_at_once(l);
  for (int64_t at = first; at < last; at += block) {
    int64_t rows = last - at < block ? last - at : block, ld = stride(rows), wide = padded(rows);
    columns_of(x + at * row_step, row_step, rows, 0, l.features, memory, ld);
    for (int64_t g = 0; g < l.groups; g++) {
      const float *own = bias ? bias + g * l.outputs : nullptr;
      Mapped end{out + g * l.outputs * layer->rows + at, layer->rows, rows, own, positive != 0};
      if (l.outputs > 1) {
        map_group(l, g, ld, wide, end);
        continue;
      }
      auto channel = [&](int64_t b, Vec v) { end(0, b, v); };
      const int64_t *index = l.index + g * l.size;
      const float *weight = l.weight + g * l.size;
      if (l.size == 9)
        map_one<9>(index, 9, weight, memory, ld, wide, channel);
      else
        map_one<0>(index, l.size, weight, memory, ld, wide, channel);
    }
  }
}

NRS_EXPORT void nrs_layer_train(const nrs_layer *l, const nrs_batch_norm *norm, int64_t first,
                                int64_t last, float *h, float *out) {
  if (l->outputs > 1) return grouped_train(*l, *norm, first, last, h, out);
  if (l->size == 9) return fused_train<9>(*l, *norm, first, last, h, out);
  fused_train<0>(*l, *norm, first, last, h, out);
}

NRS_EXPORT void nrs_layer_backward(const nrs_layer *l, const nrs_batch_norm *norm, const float *h,
                                   const nrs_gradients *gradients, int64_t first, int64_t last,
                                   float *memory) {
  if (l->outputs > 1) return grouped_backward(*l, norm, h, *gradients, first, last, memory);
  if (l->size == 9) return fused_backward<9>(*l, norm, *gradients, first, last, memory);
  fused_backward<0>(*l, norm, *gradients, first, last, memory);
}
