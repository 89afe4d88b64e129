//! Lesson 4: post-training quantization.

use crate::answers;

mod reference {
    pub use quantlab::prelude::*;
    pub use quantlab_course::lesson_4::*;

    include!("lesson_4/reference.rs");
}

answers!("lesson_4", get_model_memory_footprint, quantlab_course::check_get_model_memory_footprint: always_four_bytes, both_names_out, by_shape, bytes, decimal_megabytes, elements, equal_shapes_once, loop_with_continue, memory_by_owner, names_once, no_head, parameters_only, parameters_with_a_dot_weight, solution, tied_buffers_counted, twice, two_loops, unfinished, whole_kib, whole_kibibytes, whole_mebibytes);

answers!("lesson_4", quantize_block, quantlab_course::check_quantize_block: a_byte_each, almost_zero_code, bisection, by_reciprocal, cut_off, epsilon, evenly_spaced, fifteen_codes, first_half_searched, first_near_enough, first_of_64, inverse_returned, last_value_forgotten, low_half_first, neighbours_in_order, not_below_a_millionth, not_scaled, outliers_cut_off, restored_nearest, scale_of_one_returned, scan_in_f64, seven_is_zero, solution, sorted_only, squared_distance, unfinished, with_loops, without_abs, zero_by_zero, zero_by_zero_panics, zero_is_code_0);

answers!("lesson_4", dequantize_block, quantlab_course::check_dequantize_block: a_value_each, absmax_squared, always_64, backwards, by_place, codebook_made_to_end_at_one, divided, high_halves_then_low, low_half_first, not_scaled, one_zero_for_each_byte, own_codebook, pushed, signed_bytes, sixty_four_at_most, solution, sorts_the_codebook, table_of_restored, unfinished, zeros_at_the_end_dropped);

answers!("lesson_4", configurations, quantlab_course::check_configurations: always_cpu, bfloat16_too, checks_the_quantized, compute_in_bfloat16, cpu_leaves_quantized_out, default_4bit, device_of_the_baseline_only, double_quant, engine_named, engine_of_the_quantized, first_gpu_always, gpu_leaves_quantized_out, half_on_cpu, head_too, int4, large_blocks, names_with_the_rest, no_baseline_in_the_name, no_int8, no_threshold, not_looked_at, nothing_quantized, one_by_one, one_label, only_the_first_gpu, other_order, other_rest, rest_in_float32, restored_weights, skips_attention, solution, swapped, table_of_four, unfinished, written_out);

answers!("lesson_4", generate_text_and_time, quantlab_course::check_generate_text_and_time: all_in_the_stopwatch, by_hand, checked, collected, cut_after_the_prompt, decode_in_the_stopwatch, decode_inside, encode_inside, error_as_text, fifty, first_token_only, milliseconds, min_new_tokens, not_synchronized, own_clock, per_token, prompt_trimmed, reads_the_clock_for_the_tokenizer, sampled, solution, stops_at_eos, token_by_token, unfinished, unreadable_is_empty, waits_are_ignored, waits_late, warm_up_inside, with_prompt);

answers!("lesson_4", run_experiment, quantlab_course::check_run_experiment: all_at_once, all_prompts, all_timed, always_three_runs, as_it_should, closures_and_iterators, cuts_the_prompt_by_bytes, each_prompt_once, embedded_always, empty_text_for_an_error, error_as_text, failures_last, failures_left_out, fastest, fifty_tokens, first_error_ends, first_prompt_only, function_for_a_row, in_a_loop, last_text, library_footprint, log_afterwards, log_of_prompts_left_out, log_without_unit, match_and_drop, median, memory_of_the_first, milliseconds, names_of_its_own, no_log, no_warm_up, nothing_as_zero, one_model, one_more_in_the_divisor, one_token_timed, one_tokenizer, only_loading_may_fail, prompts_reversed, replaced_when_loaded, scales_counted, solution, sum, texts_of_the_first, times_the_last_prompt, timing_errors_ignored, tokenizer_of_each_row, unfinished, vague_error, warm_up_averaged, warm_up_in_the_mean, with_the_prompt);

answers!("lesson_4", rounding_error, quantlab_course::check_rounding_error: first_lost, in_f32, loop_over_places, magnitudes, means, no_root, not_divided, of_the_restored, root_mean_square, share, solution, summed_first, unfinished);

answers!("lesson_4", repetition, quantlab_course::check_repetition: at_once_only, counted_only, distinct_joined, first_time_too, five_words, joined_without_spaces, lower_case, nan_for_short_texts, new_ones, of_the_words, one_too_few, panics_for_short_texts, percent, searched_before, solution, split_at_spaces, tabs_kept, three_words, unfinished, words);

answers!("lesson_4", pareto_front, quantlab_course::check_pareto_front: beats_itself, by_cost, either, from_one, larger_is_better, loops, neighbours_only, no_points_panic, solution, strictly, swept, the_beaten, twins_beat, unfinished);

answers!("lesson_4", fastest_within, quantlab_course::check_fastest_within: at_the_limit, below_the_limit, by_memory, either, errors_swallowed, filtered_twice, memory_only, missing_is_zero, not_sorted, quality_only, slowest_first, solution, turned_round, unfinished, winner_only);

answers!("lesson_4", more_formats, quantlab_course::check_more_formats: float16, head_left, not_double, other_engine, other_order, own_names, pushed, quantized_bf16, solution, unfinished, usual_blocks);
