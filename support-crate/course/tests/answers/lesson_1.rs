//! Lesson 1: latency and precision.

use crate::answers;

mod reference {
    pub use quantlab::prelude::*;
    pub use quantlab_course::lesson_1::*;

    include!("lesson_1/reference.rs");
}

answers!("lesson_1", resolve_dtype, quantlab_course::check_resolve_dtype: anything_goes, by_hand, case_sensitive, contains_float16, echo, half_on_cpu, label_without_forced, library_call, only_first_gpu, prefix, silent_fallback, solution, table_lookup, unfinished, unwraps);

answers!("lesson_1", load_model_and_tokenizer, quantlab_course::check_load_model_and_tokenizer: default_device, embedded_at_last, error_last_only, find_map, first_only, id_of_the_first, ignores_precision, last_model_of_list, last_one_wins, mismatch_ends_it, model_first, other_tokenizer, panics_empty, precision_refused_late, second_try_in_float32, solution, unfinished, unknown_precision_swallowed, unresolved, vague_error);

answers!("lesson_1", time_generate, quantlab_course::check_time_generate: always_cached, clock_in_f32, cut_prompt, decode_tokens_only, empty_prompt_padded, failed_wait_ignored, fastest_of_three, fewer_tokens_when_room_is_short, fifty_to_warm_up, generate_inside, long_prompts_cut, min_new_tokens, no_ids_for_errors, no_token_to_warm_up, no_warm_up, not_synchronized, not_synchronized_before, one_less, other_warm_up, own_clock, own_loop, progress_by_tokens, prompt_counted, rounded, seconds_for_milliseconds, short_warm_up, solution, stops_at_eos, tokenizer_inside, two_runs_halved, unfinished, waits_after_reading, warm_up_failure_ignored, warm_up_timed, warm_up_timed_too, whole_milliseconds);

answers!("lesson_1", run_for_varied_lengths, quantlab_course::check_run_for_varied_lengths: best_of, bytes_on_the_axis, cache_always, cut_at_characters, fewer_tokens_where_it_is_tight, fifty_new_tokens, library_stopwatch, more_tokens_for_longer, no_runs_no_rows, one_after_the_other, one_prompt, one_run, one_run_copied, one_token_short, other_row, own_prompt_builder, own_prompts, skips_what_fails, slow_runs_repeated, solution, sorted, targets_on_the_axis, too_long_left_out, unfinished);

answers!("lesson_1", pairs_in_order, quantlab_course::check_pairs_in_order: any_rounds, as_listed, by_throughput, each_twice, ends, medians, neighbours, or_equal, out_of_order, solution, sorted_first, ties_count, unfinished);

answers!("lesson_1", tokens_computed, quantlab_course::check_tokens_computed: by_counting, full_length, half_of_both_ends, last_is_read, no_growth, not_halved, one_too_long, prompt_again, prompt_left_out, solution, swapped, unfinished);

answers!("lesson_1", run_with_and_without_cache, quantlab_course::check_run_with_and_without_cache: always_cached, as_configured, bytes_on_the_axis, first_prompt, no_runs_no_rows, one_after_the_other, one_run, rounds_outside, shorter_without, skips_what_fails, solution, sorted, swapped, target_on_the_axis, too_long_left_out, unfinished);

answers!("lesson_1", run_varied_precision, quantlab_course::check_run_varied_precision: always_float32, another_prompt, back_and_forth, by_speed, bytes_first, candidates_added, cut_in_blocks, failed_as_float32, fails_quietly, falls_back_once, falls_back_to_embedded, first_model_only, first_round_dropped, fixed_id, loads_again_every_round, memory_after_the_runs, memory_at_the_end, memory_before_each_run, memory_first_of_round_late, memory_left_out, memory_made_up, memory_once, one_after_the_other, other_token_counts, prompt_trimmed, requested_as_label, same_length_prompt, shared_forced, solution, unfinished);

answers!("lesson_1", part_of_limit, quantlab_course::check_part_of_limit: best_bandwidth, binary_gigabytes, index_loop, library_limit, limit_upside_down, medians, megabytes, nothing_for_no_bandwidth, one_round, percent, runs_per_second, solution, unfinished, unit_forgotten, upside_down);
