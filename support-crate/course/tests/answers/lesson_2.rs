//! Lesson 2: quantized inference.

use crate::answers;

mod reference {
    pub use quantlab::prelude::*;
    pub use quantlab_course::lesson_2::*;
}

answers!("lesson_2", quantize_symmetric, quantlab_course::check_quantize_symmetric: by_128, cut_off, finite_by_the_sum, in_f64, inverse, loops, maximum_of_a_sample, nan_among_the_first, nan_becomes_zero, nan_only, nonzero_only, own_zero_point, signed_maximum, skips_the_first, solution, tiny_numbers_are_zeros, unfinished, whole_range, zeros_divided, zeros_refused);

answers!("lesson_2", quantize_affine, quantlab_course::check_quantize_affine: by_256, constant_numbers_get_scale_one, cut_off, from_the_top, nan_accepted, saturating, solution, symmetric_again, unfinished, unsigned, without_zero, wraps, wrong_sign, zero_point_forgotten, zero_point_in_the_values_missing, zeros_divided);

answers!("lesson_2", int8_dot, quantlab_course::check_int8_dot: dequantized, expanded, float_sum, narrow_product, narrow_sum, no_scales, nothing_times_something, one_scale, one_zero_point, panics_at_the_end, shorter_one_wins, solution, unfinished, widened, zero_points_ignored);

answers!("lesson_2", run_static_ptq, quantlab_course::check_run_static_ptq: baseline_if_it_fails, baseline_speaks, dynamic, failure_printed, first_prompt_for_granted, first_prompt_only, hands_out_another_model, head_too, in_bfloat16, label_of_the_baseline, label_runs_on, never_tried, other_model, own_method, own_prompts, per_channel, plain_steps, same_tokenizer, solution, three_prompts_at_most, tries_by_forward, tries_every_prompt, tries_the_second_prompt, unfinished, unquantized, vague_info);

answers!("lesson_2", ablate_cache_and_padding, quantlab_course::check_ablate_cache_and_padding: always_cached, always_left, cache_only, eight_prompts_at_most, failures_left_out, fewer_without_cache, first_run_kept, fixed_new_tokens, four_calls, in_turn, library_stopwatch, longest_prompt, no_warm_up, not_synchronized, one_prompt_at_a_time, one_run_for_all, one_warm_up_for_all, own_loop, padding_counted, prompt_counted, rows_zipped_the_other_way, solution, stops_at_eos, swapped, times_the_warm_up_too, tokenizer_inside, unfinished);

answers!("lesson_2", summarise_batches, quantlab_course::check_summarise_batches: divides_by_batch_size, first_run_dropped, full_batches_only, last_run_only, longest_batch, loops, mean_of_a_run, mean_of_rates, nothing_is_zero, one_batch_counted, own_batch_size, seconds_for_milliseconds, share_of_a_batch, slow_batches_left_out, solution, unfinished, whole_runs);

answers!("lesson_2", compare_ppl, quantlab_course::check_compare_ppl: all_at_once, each_text_once, failures_left_out, first_model_only, first_text_only, in_bits, long_texts_cut, mean_of_means, mean_of_ppl, model_left_out, models_reversed, nan_for_nothing, one_long_text, one_token_too_many, solution, sums_run_on, swapped, tokens_of_the_first_model, trimmed, two_to_the, unfinished, weighted_by_characters, weighted_loop);

answers!("lesson_2", build_results_table, quantlab_course::check_build_results_table: by_rows, dtype_of_the_info, dtypes_in_the_caption, dtypes_in_the_names, dtypes_sorted, each_name_once, first_run, gaps_filled, last_run, lower_ends, means, middle_run_unsorted, milliseconds, nan_for_nothing, no_caption, no_dtype, no_units, only_measured, ppl_squeezed, rounded_text, row_by_row, solution, swapped_columns, time_per_token_from_the_throughput, unfinished, unnamed_ppl, unnamed_time, zero_ppl);

answers!("lesson_2", measure_batched, quantlab_course::check_measure_batched: all_together, default_options, failures_left_out, fixed_new_tokens, full_batches_only, loops, nothing_for_nothing, one_by_one, own_stopwatch, panics_at_zero, solution, sorted, stops_at_eos, tokenizer_inside, unfinished, warm_up);

answers!("lesson_2", probe_edge_prompts, quantlab_course::check_probe_edge_prompts: all_in_one_batch, bytes, failures_left_out, fixed_new_tokens, last_prompt_left_out, no_warm_up, one_after_another, one_more_run, one_warm_up_for_all, prompt_as_text, short_text, solution, text_as_name, text_first, text_of_the_first, three_repeats, unfinished, words);
