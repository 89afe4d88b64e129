//! Lesson 0: a transformer in one sitting.

use crate::answers;

mod reference {
    pub use quantlab_course::lesson_0::*;

    include!("lesson_0/reference.rs");
}

answers!("lesson_0", matvec, quantlab_course::check_matvec: by_columns, loops, not_summed, solution, square_only, transposed, unfinished);

answers!("lesson_0", rms_norm, quantlab_course::check_rms_norm: clipped, epsilon_outside, fixed_epsilon, gemma, in_f64, layer_norm, no_epsilon, no_epsilon_for_zeros, no_root, no_scale, solution, sum, unfinished);

answers!("lesson_0", rotate, quantlab_course::check_rotate: copy, degrees, end_of_table, exponent, exponent_of_pairs, fixed_base, from_one, half_written, indices, interleaved, other_way, recurrence, rotate_half, solution, table, unfinished);

answers!("lesson_0", attend, quantlab_course::check_attend: by_hidden_size, by_width, first_head, interleaved_heads, masked, max_from_zero, not_itself, not_normalised, not_scaled, online, overflows, own_heads, sees_all, shifted_not_normalised, solution, stays_zero, those_before, unfinished);

answers!("lesson_0", mlp, quantlab_course::check_mlp: after, fused, linear, linear_tail, loop_, not_down, overflows, relu, sigmoid, solution, swapped, unfinished);

answers!("lesson_0", run_block, quantlab_course::check_run_block: fixed_epsilon, from_the_end, in_parallel, keys_not_turned, last_token_only, no_attention_residual, no_first_norm, no_mlp_residual, no_second_norm, norms_swapped, not_turned, one_scale, position_zero, post_norm, queries_not_turned, residual_of_norm, solution, token_by_token, turned_as_one, unfinished, values_turned);

answers!("lesson_0", next_logits, quantlab_course::check_next_logits: all_positions, alone, always_tied, backwards, each_once, first_block, first_token, fixed_epsilon, head_unwrapped, ids_as_bytes, loops, no_final_norm, solution, unfinished, window);

answers!("lesson_0", probabilities, quantlab_course::check_probabilities: both_of_equals, by_id, cold_is_greedy, crossing_dropped, filters, from_zero, k_and_one, largest_magnitude, last_of_equals, less_than_k, logarithms, logits_of_zero, more_than_p, multiplied, no_temperature, no_top_k, no_top_p, not_normalised, nothing_for_zero, overflows, p_and_one, p_ties_kept, share_of_all, single_precision, solution, temperature_last, ties_dropped, unfinished, weights_for_p);

answers!("lesson_0", draw, quantlab_course::check_draw: among_possible, as_likely, beyond, by_rank, compares_first, find, from_the_end, halves, last_id, last_never, likeliest, partition, reaches, single_precision, sixteen_bits, skips_small, solution, subtracts, unfinished);

answers!("lesson_0", write, quantlab_course::check_write: all_at_once, greedy, last_token_only, last_twice, not_fed_back, one_number, one_too_many, solution, unfinished, with_prompt, without_cache);

answers!("lesson_0", step, quantlab_course::check_step: appended_late, counted_in_each_block, fixed_epsilon, from_one, keys_never_turned, keys_not_turned, no_final_norm, not_counted, not_kept, one_cache, position_zero, slices, solution, starts_again, unfinished, values_as_keys, window);
