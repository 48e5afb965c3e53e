// Graphs in text form that between them use every attribute type, role, level, kind of epilogue
// entry, subgraph and token.
#ifndef TANDEM_TESTS_UNIT_IR_SAMPLES_H
#define TANDEM_TESTS_UNIT_IR_SAMPLES_H

namespace tandem::ir::samples {

inline constexpr const char* kTraced = R"(graph @traced traced {
  in %x: f32[3, 3] primal requires_grad strides=[1, 3]
  in %y: f32[3] primal strides=[2] alias_of=%x+2
  in %key: i64[2] rng
  in %"layers[0].weight": bf16[3] parameter requires_grad
  %4: f32[3, 3] = full {sizes=[3, 3], dtype=f32, value=0.0}
  %col: f32[3] = select %4 {dim=1, index=1}
  add_ %col, %y
  %scaled: f32[3] = mul %y, %y [no_grad]
  %captured.1: f32[3] = stop_gradient %scaled
  in %captured: i32[2] primal
  %"hint.1": f32[] = sum %scaled {dims=[0], keepdim=false, order=[]}
  %w: f32[3, 3] = rand %key {sizes=[3, 3], dtype=f32, offset=0}
  out %4: result name=total requires_grad strides=[1, 3]
  out %"hint.1": result
  out %captured: result name="not a word"
  epilogue {
    grad %x = output 0
    grad %y = none
    rng_draws 3
  }
}
)";

inline constexpr const char* kFunctional = R"(graph @functional functional {
  in %x: f32[4, 2] primal requires_grad
  in %n: f32[] primal
  %2: f32[4, 2] = add %x, %x
  %row: f32[2] = select %2 {dim=0, index=1}
  %row.1: f32[2] = gelu %row {approximate="tanh"}
  %5: f32[2] = var %2 {dims=[0], correction=1.0, keepdim=false}
  %6: f32[4, 2], %7: f32[4, 1], %8: f32[4, 1] = native_layer_norm %2, %5 {normalized_dims=1, eps=1e-05}
  %9: bool[2, 3] = full {sizes=[2, 3], dtype=bool, value=true}
  %10: i64[3] = full {sizes=[3], dtype=i64, value=-9223372036854775808}
  %11: f64[] = full {sizes=[], dtype=f64, value=nan}
  %12: f64[] = full {sizes=[], dtype=f64, value=-inf}
  %13: f64[] = full {sizes=[], dtype=f64, value=-0.0}
  %14: f32[8] = iota {sizes=[8], dtype=f32, first=0.1, increment=1e+300}
  %15: f32[2] = slice %14 {dim=0, start=2, end=6, step=2}
  %16: f32[0, 2] = slice %2 {dim=0, start=0, end=0, step=1}
  out %2: mutated of %x requires_grad
  out %row.1: result requires_grad
  out %5: result
  epilogue {
    write output 0 to %x bumps=2 no_grad
    result output 1 [unsqueeze {dim=0}, alias] requires_grad
    result %x
    result view of %x [select {dim=0, index=1}, no_grad unsqueeze {dim=0}] requires_grad
    result view of result 2 [squeeze {dims=[0]}, alias]
    result view of result 0 [as_strided {sizes=[2, 2], strides=[0, 1], offset=0}]
    result view of %x [select {dim=0, index=0}, detach] history=output 1 requires_grad
    grad %n = none
    rng_draws 12
  }
}
)";

inline constexpr const char* kJoint = R"(graph @joint joint {
  in %x: f32[2, 2] primal requires_grad
  %1: f32[2, 2] = exp %x
  in %t: f32[2, 2] tangent of output 0
  %3: f32[2, 2] = mul %t, %1 [backward]
  out %1: result requires_grad
  out %3: gradient of %x
}
)";

inline constexpr const char* kCore = R"(graph @core core {
  in %x: f32[2, 2] primal requires_grad
  in %t: f32[2] tangent of output 0
  %2: f32[2] = sum %x {dims=[1], keepdim=false, order=[16, 128]}
  %3: f32[2, 2] = expand %t {sizes=[2, 2]} [backward]
  %4: f32[2, 2] = mm %x, %3 {algorithm=""} [no_grad] [backward]
  out %2: result requires_grad
  out %4: gradient of %x strides=[1, 2]
}
)";

inline constexpr const char* kForward = R"(graph @forward forward {
  in %x: f32[2] primal requires_grad
  %1: f32[2] = exp %x
  out %1: result requires_grad
  out %1: saved name=y
}
)";

inline constexpr const char* kBackward = R"(graph @backward backward {
  in %y: f32[2] saved of output 1
  in %t: f32[2] tangent of output 0
  in %rng: i64[2] rng
  %3: f32[2] = mul %t, %y [backward]
  out %3: gradient of input 0
}
)";

inline constexpr const char* kSubgraphs = R"(graph @subgraphs functional {
  graph @body functional {
    graph @inner functional {
      in %a: f32[2] primal
      out %a: result
    }
    in %a: f32[2] primal
    %1: f32[2] = call %a {body=@inner}
    out %1: result
  }
  graph @body.1 functional {
    in %a: f32[2] primal
    %1: f32[2] = exp %a
    out %1: result
    out %1: saved
  }
  graph @"bwd.1" functional {
    in %y: f32[2] saved
    in %g: f32[2] tangent of output 0
    %2: f32[2] = mul %g, %y
    out %2: gradient of input 0
  }
  graph @effect functional {
    in %a: f32[2] primal
    in %before: token token
    out %a: result
    out %before: token
  }
  graph @scale functional {
    in %g: f32[2] primal
    %1: f32[2] = neg %g
    out %1: result
  }
  in %x: f32[2] primal requires_grad
  in %io: token token
  %2: f32[2] = call %x {body=@body}
  %y: f32[2], %saved: f32[2] = custom_function %2 {forward=@body.1, backward=@"bwd.1"}
  %5: f32[2], %io.1: token = call %y, %io {body=@effect}
  %7: f32[2] = hook %5 {backward=@scale}
  out %7: result requires_grad
  out %io.1: token
}
)";

inline constexpr const char* kEmpty = "graph @\"\" traced {\n}\n";

inline constexpr const char* kAll[] = {kTraced,  kFunctional, kJoint,     kCore,
                                       kForward, kBackward,   kSubgraphs, kEmpty};

}  // namespace tandem::ir::samples

#endif  // TANDEM_TESTS_UNIT_IR_SAMPLES_H
