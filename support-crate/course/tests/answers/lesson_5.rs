//! Lesson 5: outliers.

use crate::answers;

mod reference {
    pub use quantlab_course::lesson_5::*;

    include!("lesson_5/reference.rs");
}

answers!("lesson_5", largest_by_channel, quantlab_course::check_largest_by_channel: by_column, by_index, by_token, from_one, last, mean, nothing_of_none, signed, solution, unfinished);

answers!("lesson_5", peak_to_rms, quantlab_course::check_peak_to_rms: alike, in_f64, magnitudes, no_root, one_number, scaled_first, signed, single, solution, sorted_, spread, sum_, unfinished, upside_down, zeros);

answers!("lesson_5", round_to, quantlab_course::check_round_to: all_bits, always_rows, always_tensor, by_cases, codes, cut_off, cut_off_eight, eight, in_i8, last_and_one, least_step, signed, solution, swapped, ties_even, transposed, unfinished, unrounded, zeros);

answers!("lesson_5", llm_int8, quantlab_course::check_llm_int8: above, all_apart, by_number, dropped, no_split, not_rounded, ones, per_tensor, six, solution, step_of_all, two_products, unfinished, weights_apart, weights_whole);

answers!("lesson_5", smoothing, quantlab_course::check_smoothing: by_index, by_logs, epsilon, inputs_alone, least_scale, least_weight, repaired, same_power, solution, swapped, times, unfinished, upside_down, zeros);

answers!("lesson_5", fold_scales, quantlab_course::check_fold_scales: both_divided, by_index, by_ratio, inverse, norm_alone, rows, solution, unfinished, weights_alone);

answers!("lesson_5", hadamard, quantlab_course::check_hadamard: all_at_once, at_most_256, by_matrix, difference_first, divided_twice, empty, neighbours, not_scaled, nothing, of_whole, one_step, recursive, root_in_each_pass, solution, unfinished);

answers!("lesson_5", turn, quantlab_course::check_turn: as_one, columns, first_row, no_signs, signed_first, signs_after, signs_alone, solution, unfinished);

answers!("lesson_5", awq_scales, quantlab_course::check_awq_scales: by_largest, clamped_first, geometric, half_sum, low_from_one, mean, negative, no_root, solution, sorted_, undivided, unfinished, zeros, zeros_only);

answers!("lesson_5", best_scales, quantlab_course::check_best_scales: against_previous, by_power, errors_in_f32, first, from_small, last, means_as_scales, min_by, most, raw_powers, solution, thousandths, tournament, unfinished);
