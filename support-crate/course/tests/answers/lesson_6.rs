//! Lesson 6: three bits and below.

use crate::answers;

mod reference {
    pub use quantlab_course::lesson_6::*;

    include!("lesson_6/reference.rs");
}

answers!("lesson_6", grid_between, quantlab_course::check_grid_between: divides_by_zero, from_high, in_f64, in_float32, last_too_large, not_extended, other_sign, sixteen_steps, solution, unfinished, zero_not_whole);

answers!("lesson_6", code_of, quantlab_course::check_code_of: away, ceils, floors, multiplies, no_zero, not_held, panics, search, solution, truncates, unfinished, wraps, zero_off);

answers!("lesson_6", bits_per_weight, quantlab_course::check_bits_per_weight: codes_alone, in_float32, not_shared, of_a_group, of_group, solution, step_alone, two_halves, unfinished, zero_alone);

answers!("lesson_6", clipped_grid, quantlab_course::check_clipped_grid: first, high_alone, inside, low_alone, magnitudes, mean, min_by, most, solution, stops, unfinished, whole, without_zero, worst);

answers!("lesson_6", hessian, quantlab_course::check_hessian: all_damped, diagonal_alone, half, largest_damps, last_token, mean, not_damped, of_tokens, once, solution, sum_damps, triple, unfinished);

answers!("lesson_6", gptq_row, quantlab_course::check_gptq_row: by_column, divided_twice, first_grid, in_loops, itself_too, late, nearest, next_only, not_divided, of_original, other_sign, rounds_original, solution, too_few, unfinished);

answers!("lesson_6", decode_q4_0, quantlab_course::check_decode_q4_0: big_endian, by_index, high_first, low_halves, no_offset, pairs, seven, solution, unfinished);

answers!("lesson_6", encode_q4_0, quantlab_course::check_encode_q4_0: down, high_first, magnitude, no_scale, pairs, rounded, sevenths, sixteen, solution, unfinished, unscaled);

answers!("lesson_6", decode_q4_1, quantlab_course::check_decode_q4_1: by_index, high_first, no_minimum, offset, pairs, solution, subtracts, swapped, unfinished);

answers!("lesson_6", decode_q4_k, quantlab_course::check_decode_q4_k: adds, all_alike, as_in_c, four_bits, high_first, in_f64, in_sixteens, no_minimum, not_masked, pairs, solution, swapped, unfinished, uppers_swapped);

answers!("lesson_6", four_numbers, quantlab_course::check_four_numbers: bits_of_exp, bits_per_token, characters, exp2, in_nats, not_exp, powers, shared, solution, spaces, times_ln2, unfinished);
