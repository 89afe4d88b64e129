//! Lesson 4: post-training quantization.

use crate::answers;

mod reference {
    pub use quantlab::prelude::*;

    include!("answers/lesson_4/reference.rs");
}

answers!("lesson_4", get_model_memory_footprint, quantlab::course::check_get_model_memory_footprint: always_four_bytes, by_shape, bytes, decimal_megabytes, elements, parameters_only, solution, twice, two_loops, unfinished);

answers!("lesson_4", quantize_block, quantlab::course::check_quantize_block: a_byte_each, by_reciprocal, cut_off, evenly_spaced, low_half_first, not_scaled, solution, sorted_only, unfinished, with_loops, without_abs, zero_by_zero, zero_by_zero_panics);

answers!("lesson_4", dequantize_block, quantlab::course::check_dequantize_block: a_value_each, divided, low_half_first, not_scaled, own_codebook, pushed, solution, unfinished);

answers!("lesson_4", configurations, quantlab::course::check_configurations: always_cpu, default_4bit, half_on_cpu, head_too, neither, no_int8, nothing_quantized, one_by_one, one_label, other_rest, solution, swapped, rest_in_float32, other_order, unfinished);

answers!("lesson_4", generate_text_and_time, quantlab::course::check_generate_text_and_time: collected, decode_inside, encode_inside, milliseconds, min_new_tokens, not_synchronized, own_clock, per_token, solution, stops_at_eos, unfinished, waits_late, warm_up_inside, with_prompt);

answers!("lesson_4", run_experiment, quantlab::course::check_run_experiment: all_at_once, all_prompts, all_timed, failures_left_out, first_error_ends, first_prompt_only, in_a_loop, last_text, no_warm_up, nothing_as_zero, one_model, solution, sum, unfinished, vague_error, warm_up_averaged);
