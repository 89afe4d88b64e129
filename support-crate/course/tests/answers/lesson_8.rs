//! Lesson 8: serving.

use crate::answers;

mod reference {
    pub use quantlab_course::lesson_8::*;

    include!("lesson_8/reference.rs");
}

answers!("lesson_8", look_up, quantlab_course::check_look_up: after_first_token, all_or_nothing, all_that_follow, best_match, down_to_two, first_place, itself, longest_only, loops, no_limit_of_run, no_overlap, panics, shortest_first, skips_one, solution, stops_at_the_run, unfinished, with_run);

answers!("lesson_8", kept, quantlab_course::check_kept: agreeing, all_that_agree, by_position, cut_by_value, every_choice, guesses_only, loop_of_pushes, no_bonus, one_more, shifted, solution, unfinished, wrong_guess);

answers!("lesson_8", draw_or_keep, quantlab_course::check_draw_or_keep: always, apart, backwards, by_p, from_p, from_q, greedy, likeliest, multiplied, never, normalised, not_divided, not_normalised, other_way, others, same_number, solution, stays_at_equality, unfinished, upside_down);

answers!("lesson_8", tokens_per_pass, quantlab_course::check_tokens_per_pass: all_or_none, apart, closed, divides_by_zero, endless, from_one, horner, one_more, one_short, solution, unfinished, wide_limit);

answers!("lesson_8", round_cache, quantlab_course::check_round_cache: across_tokens, codes_in_i8, each_number, equal_to_zero, from_zero, nan, one_grid, other_way, sixteen_steps, small_is_equal, solution, strides, symmetric, tail, transposed, truncated, unfinished, whole_line);

answers!("lesson_8", head_bytes, quantlab_course::check_head_bytes: after_128, all_begun, all_tokens, always_128, as_keys, float16_rest, half_scales, in_bits, in_bits_of, keys_only, keys_recent, no_recent, no_scales, one_early, one_token, sixty_four, solution, underflows, unfinished, whole_bytes_of_a_token, whole_parts);

answers!("lesson_8", cached_tokens, quantlab_course::check_cached_tokens: blocks, first_before, first_only, goes_on, last_too, not_chained, one_short, panics, partial, scan, solution, unfinished, while_loop);

answers!("lesson_8", evicted, quantlab_course::check_evicted: counted, in_chain, in_order, in_use, most_recent, once, panics, rounds, solution, too_many, unfinished);

answers!("lesson_8", plan, quantlab_course::check_plan: aside_all, aside_one_more, decoders_free, decoding_only, ignores_past, last_first, last_token_lost, lists, loops, no_budget, no_places, no_room, not_set_aside, not_used_up, nothing_new, one_chain, one_left_decodes, one_token, overtakes, preempts, prompt_only, reading_first, room_for_the_chunk, solution, some_room_left, static_batches, unfinished, whole_prompts, zeros);

answers!("lesson_8", percentile, quantlab_course::check_percentile: between_ends, by_rank, by_whole_ms, descending, floors, n_plus_one, nearest_rank, no_repeats, place_n, rounds, solution, unfinished, unsorted, weighted, weights_turned);

answers!("lesson_8", simulated, quantlab_course::check_simulated: arrivals_in_turn, at_start, by_chunk, by_requests, each_alone, endless, events, from_zero, late, moves_when_idle, one_after_another, one_missing, recursive, since_arrival, solution, stops_when_idle, thousand_steps, unfinished);
