//! Lesson 6: three bits and below.

use crate::answers;

mod reference {
    pub use quantlab_course::lesson_6::*;

    include!("lesson_6/reference.rs");
}

answers!("lesson_6", grid_between, quantlab_course::check_grid_between: divides_by_zero, eight_bits_overflow, from_high, in_f64, in_float32, last_too_large, not_extended, other_sign, sixteen_steps, small_groups_are_zero, solution, unfinished, zero_not_held, zero_not_whole);

answers!("lesson_6", code_of, quantlab_course::check_code_of: away, ceils, floors, multiplies, negatives_cut, no_zero, not_held, panics, search, solution, steps_in_i8, truncates, unfinished, wraps, zero_off);

answers!("lesson_6", bits_per_weight, quantlab_course::check_bits_per_weight: codes_alone, in_float32, not_shared, of_a_group, of_group, solution, step_alone, two_halves, unfinished, whole_bits, zero_alone);

answers!("lesson_6", clipped_grid, quantlab_course::check_clipped_grid: first, high_alone, inside, large_errors_never_win, last_of_equals, low_alone, magnitudes, mean, min_by, most, quotients, solution, stops, unfinished, whole, without_zero, worst);

answers!("lesson_6", hessian, quantlab_course::check_hessian: all_damped, damping_at_least, dead_columns_get_one, diagonal_alone, half, largest_damps, last_token, mean, not_damped, of_tokens, once, only_the_diagonal_given, solution, sum_damps, sums_in_f32, tokens_in_pairs, triple, unfinished);

answers!("lesson_6", gptq_row, quantlab_course::check_gptq_row: by_column, divided_twice, first_grid, gathers_before, in_loops, itself_too, late, nearest, next_only, not_divided, of_original, other_sign, rounds_original, solution, too_few, unfinished, weights_in_f32, within_64);

answers!("lesson_6", decode_q4_0, quantlab_course::check_decode_q4_0: big_endian, by_index, high_first, low_halves, no_offset, pairs, seven, small_scales_are_zero, solution, unfinished);

answers!("lesson_6", encode_q4_0, quantlab_course::check_encode_q4_0: down, high_first, inverse_of_stored_scale, last_of_equals, magnitude, no_scale, pairs, rounded, sevenths, sixteen, solution, unfinished, unscaled, zero_if_stored_as_zero, zeros_get_code_0);

answers!("lesson_6", decode_q4_1, quantlab_course::check_decode_q4_1: by_index, equal_numbers_lost, high_first, no_minimum, offset, pairs, solution, subtracts, swapped, unfinished);

answers!("lesson_6", decode_q4_k, quantlab_course::check_decode_q4_k: adds, all_alike, as_in_c, four_bits, high_first, in_f64, in_sixteens, no_minimum, no_scale_no_minimum, not_masked, pairs, solution, swapped, unfinished, uppers_swapped);

answers!("lesson_6", four_numbers, quantlab_course::check_four_numbers: bits_of_exp, bits_per_token, characters, exp2, halved, in_nats, not_exp, powers, root_of_exp, shared, solution, spaces, times_ln2, unfinished);
