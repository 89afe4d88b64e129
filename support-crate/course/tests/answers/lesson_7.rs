//! Lesson 7: your own kernel.

use crate::answers;

mod reference {
    pub use quantlab::prelude::*;
    pub use quantlab_course::lesson_7::*;

    include!("lesson_7/reference.rs");
}

answers!("lesson_7", work, quantlab_course::check_work: additions_apart, all_in_bits, bits_as_bytes, in_u32, in_whole_numbers, no_inputs, no_outputs, one_operation, one_row, solution, unfinished, weights_again, weights_only);

answers!("lesson_7", least_seconds, quantlab_course::check_least_seconds: added, arithmetic_only, branch, gibibytes, memory_only, multiplied, not_giga, operations_as_pairs, shorter, solution, under_the_roof, unfinished);

answers!("lesson_7", dot_in_lanes, quantlab_course::check_dot_in_lanes: chunk_sums_into_one, double, eight_sums, first_chunk, first_sum, indices, no_tail, one_sum, reads_beyond, skips_nan, skips_zeros, solution, squares, tail_only, tail_twice, two_sums, unfinished);

answers!("lesson_7", dot_vectors, quantlab_course::check_dot_vectors: by_place, first_vector, no_tail, not_added, one_vector, reads_beyond, same_eight, skips_nan, solution, squares, tail_only, unfinished);

answers!("lesson_7", four_dots, quantlab_course::check_four_dots: added_up, first_row, no_tail, one_sum, plain_loops, reversed, row_by_row, skips_nan, solution, tail_of_the_first, unfinished, zeros_of_x_skipped);

answers!("lesson_7", in_blocks, quantlab_course::check_in_blocks: added, by_index, left_as_it_was, no_columns, no_rest, rest_again, rest_only, row_by_row, same_row, solution, unfinished);

answers!("lesson_7", in_threads, quantlab_course::check_in_threads: a_part_too_many, a_thread_a_row, all_spawned, alone, always_from_zero, balanced, first_of_equal_shares, in_turn, no_threads, none_panics, number_of_the_part, own_part_before, rest_to_the_last, rounds_down, solution, split_off, two_only, unfinished);

answers!("lesson_7", dot_int8, quantlab_course::check_dot_int8: checked, in_float32, in_lanes, no_tail, products_overflow, products_saturate, products_wrap, sixteen_bits, solution, unfinished, unsigned, wide);

answers!("lesson_7", matvec_int8, quantlab_course::check_matvec_int8: added, by_reciprocal, cut_off, down, first_scale, infinity_lost, inputs_as_they_are, largest_for_scale, nan_lost, no_input_scale, no_row_scale, no_scales, small_inputs_are_zero, solution, ties_to_even, unfinished, zeros);

answers!("lesson_7", decode_nf4, quantlab_course::check_decode_nf4: all_first, begins_with_a_byte, block_of_the_first, blocks_from_the_first, blocks_of_bytes, from_the_beginning, last_byte_short, low_first, lower_twice, no_scale, nothing_at_the_end_panics, one_scale, own_blocks, parity_from_first, shifts, solution, unfinished, upper_twice);

answers!("lesson_7", dot_nf4, quantlab_course::check_dot_nf4: blocks_of_zeros_skipped, decoded, first_block, first_sums, last_missing, low_first, no_scale, one_scale, one_total, same_bytes, scaled_weights, skips_nan, solution, unfinished);
