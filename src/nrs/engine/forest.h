// A member in training: forward, loss, backward and update, with its weights and activations in
// cache from one step to the next.
#ifndef NRS_FOREST_H
#define NRS_FOREST_H
#include "directions.h"
#include "layer.h"
#include "loss.h"
#include "product.h"
#include "subspaces.h"

namespace {

constexpr int64_t MAX_LAYERS = 16;

// Where a member keeps what it computes. Layers are (width, rows); widths are filled up to 16.
struct Memory {
  float *h[MAX_LAYERS], *active[MAX_LAYERS];
  Statistics statistics[MAX_LAYERS];
  // Weights as they count, where units have directions, and what these multiply: of the subspaces,
  // of each layer after them and of the outputs.
  float *directed[MAX_LAYERS + 1], *times[MAX_LAYERS + 1];
  float *outputs, *weights, *transposed, *gradient, *d[2], *of_scale, *of_shift, *packed, *tile;
  int64_t size;

  Memory(const nrs_forest &f, int64_t rows, float *start) {
    int64_t ld = stride(rows), widest = padded(f.outputs), largest = f.widths[0] * f.size;
    size = 0;
    // Without memory only the size is asked for.
    auto take = [&](int64_t n) {
      float *own = start ? start + size : nullptr;
      size += padded(n);
      return own;
    };
    for (int64_t l = 0; l < f.layers; l++) {
      int64_t width = padded(f.widths[l]), after = l + 1 < f.layers ? f.widths[l + 1] : f.outputs;
      h[l] = take(width * ld);
      active[l] = take(width * ld);
      statistics[l] = {take(width), take(width)};
      widest = width > widest ? width : widest;
      largest = width * after > largest ? width * after : largest;
    }
    outputs = take(padded(f.outputs) * ld);
    weights = take(ld);
    transposed = take(padded(rows) * stride(widest));
    gradient = take(largest);
    for (float *&one : d) one = take(widest * ld);
    of_scale = take(widest);
    of_shift = take(widest);
    packed = take(f.reading.most * LANES);
    tile = take(ld * LANES);
    for (int64_t l = 0; f.directions && l <= f.layers; l++) {
      int64_t units = l < f.layers ? f.widths[l] : f.outputs;
      directed[l] = take(units * (l ? f.widths[l - 1] : f.size));
      times[l] = take(units);
    }
  }
};

struct Member {
  const nrs_forest &f;
  const nrs_settings &s;
  int64_t k;
  Memory m;

  Dropout dropout(const nrs_step &t, int64_t l) const {
    int64_t before = t.places ? t.places[l] + k * f.widths[l] * t.rows : 0;
    return {t.pools ? t.pools[l] : nullptr, before, (float)(1 / (1 - s.drop))};
  }

  // The product that gives layer l, of which the first is the subspaces' and the last the outputs'.
  int64_t units(int64_t l) const { return l < f.layers ? f.widths[l] : f.outputs; }
  int64_t inputs(int64_t l) const { return l ? f.widths[l - 1] : f.size; }
  const nrs_parameter &parameter(int64_t l) const {
    return l == 0 ? f.weight : l < f.layers ? f.hidden[l - 1] : f.out_weight;
  }
  int64_t begin(int64_t l) const { return k * units(l) * inputs(l); }
  const float *weight(int64_t l) const {
    return f.directions ? m.directed[l] : parameter(l).value + begin(l);
  }
  // The directions of what a unit reads; those of units before it are multiplied by their number.
  const float *below(int64_t l, int64_t unit) const {
    const nrs_directions &d = *f.directions;
    return l ? d.units[l - 1] + k * inputs(l) : d.inputs + begin(0) + unit * f.size;
  }

  void direct_weights() {
    for (int64_t l = 0; l <= f.layers; l++) {
      int64_t n = inputs(l);
      for (int64_t u = 0; u < units(l); u++) {
        int64_t own = k * units(l) + u;
        float toward = l == f.layers
                           ? f.directions->outputs[own]
                           : f.directions->units[l][own] * sign(f.norms[l].scale.value[own]);
        const float *w = parameter(l).value + begin(l) + u * n;
        m.times[l][u] = toward * (l ? (float)n : 1.0f);
        if (l == f.layers && toward == 0)
          memcpy(m.directed[l] + u * n, w, n * sizeof(float));
        else
          direct(w, below(l, u), m.times[l][u], n, m.directed[l] + u * n);
      }
    }
  }

  // Update the weights of layer l by the gradient of what counts, whose rows are ld apart.
  void update_weights(const Rates &rates, int64_t l, float *gradient, int64_t ld) {
    int64_t n = inputs(l);
    for (int64_t u = 0; f.directions && u < units(l); u++)
      if (l < f.layers || m.times[l][u] != 0)
        direct_backward(parameter(l).value + begin(l) + u * n, below(l, u), m.times[l][u], n,
                        gradient + u * ld);
    if (l) return update(rates, parameter(l), begin(l), gradient, units(l), n, ld);
    for (int64_t g = 0; g < units(0); g++)
      update_row(rates, f.weight, begin(0) + g * n, gradient + g * ld,
                 f.reading.used[k * units(0) + g]);
  }

  void forward(const nrs_step &t, int64_t ld) {
    int64_t wide = padded(t.rows), width = f.widths[0];
    if (f.directions) direct_weights();
    map_forward(Subspaces{f, k, t.x, t.columns, t.rows, weight(0)}, m.packed, m.tile, m.h[0]);
    for (int64_t l = 0;; l++) {
      normalise(f.norms[l], k * width, width, t.rows, ld, (float)s.epsilon, (float)s.momentum,
                dropout(t, l), m.h[l], m.active[l], m.statistics[l]);
      bool last = l + 1 == f.layers;
      int64_t after = last ? f.outputs : f.widths[l + 1];
      if (last) {
        product(after, wide, width, weight(l + 1), width, 1, m.active[l], ld,
                Shifted{m.outputs, ld, f.out_bias.value + k * after, false});
        return;
      }
      product(after, wide, width, weight(l + 1), width, 1, m.active[l], ld, Store{m.h[l + 1], ld});
      width = after;
    }
  }

  // Leaves the gradient in the place of the outputs.
  void loss(const nrs_step &t, int64_t ld) {
    float total = row_weights(s.sees + k * s.folds, t.fold, t.weights, t.rows, m.weights);
    if (total < 1.1754944e-38f) total = 1.1754944e-38f;
    float share = (float)s.share / total;
    float found = s.loss == 0 ? softmax(f.outputs, t.rows, ld, t.classes, m.weights, share, m.outputs)
                  : s.loss == 1
                      ? logistic(f.outputs, t.rows, ld, t.targets, m.weights, share, m.outputs)
                      : squared(f.outputs, t.rows, ld, t.targets, m.weights, share, m.outputs);
    t.losses[k] = (double)found / (double)total * s.share;
  }

  void backward(const nrs_step &t, int64_t ld) {
    int64_t wide = padded(t.rows), after = f.outputs;
    Rates rates(s, t);
    const float *d = m.outputs;
    for (int64_t l = f.layers - 1; l >= 0; l--) {
      int64_t width = f.widths[l], lt = stride(width);
      float *before = m.d[l % 2];
      product(width, wide, after, weight(l + 1), 1, width, d, ld, Store{before, ld});
      transpose(m.active[l], ld, width, t.rows, m.transposed, lt);
      product(after, padded(width), t.rows, d, ld, 1, m.transposed, lt,
              Store{m.gradient, padded(width)});
      update_weights(rates, l + 1, m.gradient, padded(width));
      if (l + 1 == f.layers) {
        for (int64_t o = 0; o < after; o++) {
          Vec total = zero();
          for (int64_t b = 0; b < wide; b += LANES) total = total + load(d + o * ld + b);
          m.of_shift[o] = sum(total);
        }
        update(rates, f.out_bias, k * after, m.of_shift, 1, after, after);
      }
      normalise_backward(f.norms[l], k * width, width, t.rows, ld, dropout(t, l), rates, m.h[l],
                         m.active[l], m.statistics[l], before, m.of_scale, m.of_shift);
      d = before;
      after = width;
    }
    map_backward(Subspaces{f, k, t.x, t.columns, t.rows, weight(0)}, d, m.tile, m.gradient);
    update_weights(rates, 0, m.gradient, f.size);
  }

  // Rows side by side, as the caller has them, to and from the padded ones.
  void give_outputs(const nrs_step &t, int64_t ld) {
    for (int64_t o = 0; o < f.outputs; o++)
      memcpy(t.outputs + (k * f.outputs + o) * t.rows, m.outputs + o * ld, t.rows * sizeof(float));
  }
  void take_gradients(const nrs_step &t, int64_t ld) {
    for (int64_t o = 0; o < f.outputs; o++) {
      float *own = m.outputs + o * ld;
      memset(own, 0, padded(t.rows) * sizeof(float));
      memcpy(own, t.gradients + (k * f.outputs + o) * t.rows, t.rows * sizeof(float));
    }
  }

  void take_step(const nrs_step &t, int phases) {
    int64_t ld = stride(t.rows);
    if (phases & NRS_FORWARD) {
      forward(t, ld);
      if (t.outputs) give_outputs(t, ld);
    }
    if (phases & NRS_LOSS) loss(t, ld);
    if (!(phases & NRS_BACKWARD)) return;
    if (t.gradients) take_gradients(t, ld);
    backward(t, ld);
  }
};

}  // namespace
#endif
