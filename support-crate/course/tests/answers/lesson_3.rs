//! Lesson 3: perplexity.

use crate::answers;

mod reference {
    pub use quantlab::prelude::*;
    pub use quantlab_course::lesson_3::*;

    include!("lesson_3/reference.rs");
}

answers!("lesson_3", log_softmax_at, quantlab_course::check_log_softmax_at: bits, first_is_largest, first_thousand, largest_only_once, log_of_softmax, log_sum_exp, loop_in_f32, maximum_from_zero, negated, one_pass, others_beside_the_largest, overflows, probability, raw_logit, relative_to_the_token, smallest_first, smallest_positive, solution, tail_below_minus_16_skipped, two_logarithms, unfinished);

answers!("lesson_3", pad_batch, quantlab_course::check_pad_batch: at_most_512, cut_to_shortest, each_text_once, fixed_length, inverted_mask, left, length_of_last, mask_by_id, mask_on_the_other_side, no_mask, no_texts, not_padded, other_padding, padded_with_minus_100, place_by_place, solution, unfinished, without_empty_texts);

answers!("lesson_3", sequence_loss, quantlab_course::check_sequence_loss: after_left_padding, averaged, backwards, cut_out_without_logits, first_row, first_token_counted, infinite_losses_skipped, iterators, log_likelihood, not_shifted, one_less, one_too_far, own_softmax, padding_counted, pairs_of_the_mask, remembers_the_one_before, repeated_tokens_skipped, shifted_back, shifted_twice, solution, stops_at_padding, text_only, unfinished);

answers!("lesson_3", evaluate, quantlab_course::check_evaluate: all_at_once, all_tokens, always_two, base_two, by_index, drops_last_batch, each_text_once, empty_texts_in_batches, error_for_one_batch, goes_on_after_errors, helper_for_a_batch, leaves_out_unreadable, left_without_mask, long_texts_cut, mean_of_batch_means, mean_of_perplexities, mean_of_text_means, nan_for_nothing, needs_two_tokens, not_shifted, nothing_is_zero, nothing_works, one_at_a_time, one_too_small, padding_scored, per_text, short_by_characters, solution, sorted_by_length, sum_of_losses, trimmed, unfinished, unreadable_is_nothing, unwraps, weighted_by_characters, weighted_means, weighted_with_texts, without_mask);

answers!("lesson_3", kl_divergence, quantlab_course::check_kl_divergence: absolute, averaged, below_1e_6_is_nothing, bits, cross_entropy, cross_entropy_less_entropy, every_token_anew, exchanged, in_f32, likely_tokens_only, log_of_probabilities, negated, not_weighted, of_logits, of_probabilities, overflows, solution, symmetric, top_token_only, unfinished, weighted_with_q, with_epsilon);

answers!("lesson_3", mean_with_interval, quantlab_course::check_mean_with_interval: always_1_96, biased, by_draws, k_degrees, loops, mean_of_means, no_root, not_divided, one_side, one_standard_error, perplexity, solution, spread_of_means, standard_deviation, sum, unfinished, value_by_draws, weights);

answers!("lesson_3", loss_in_windows, quantlab_course::check_loss_in_windows: all_in_one_batch, by_hand, first_token, full_windows_only, goes_on, longer_by_one, mean, negated, not_shifted, nothing_counts, nothing_is_an_error, one_before, overlap_twice, rows_of_the_text, solution, stops_at_errors, unfinished, whole_text, with_mask);

answers!("lesson_3", compare_texts, quantlab_course::check_compare_texts: all_tokens, base_loss, differing, divergence_swapped, empty_for_short, fails_on_short, first_token_never_top, from_the_losses, goes_on, hits_of_base, hits_of_other, loss_swapped, mean_divergence, mean_loss, one_for_all, other_loss, solution, unfinished, unreadable_left_out);

answers!("lesson_3", padding_share, quantlab_course::check_padding_share: all_for_nothing, from_the_text, full_batches_only, last_batch_full, length_of_first, length_of_last, longest_of_all, loops, mean_of_shares, nan_for_nothing, per_token_of_text, percent, places, share_of_text, solution, unfinished, weighted);

answers!("lesson_3", mean_of_means, quantlab_course::check_mean_of_means: by_texts, folded, full_batches_only, loops, means_within, nan_for_nothing, nothing_is_zero, of_perplexities, of_texts, over_tokens, perplexity, several_tokens_only, solution, sum, unfinished, weighted_by_texts);

answers!("lesson_3", windows, quantlab_course::check_windows: beyond_the_text, by_count, first_token, from_the_window, full_windows_only, goes_on, half_scored, later_window, longer_by_one, no_windows, one_for_nothing, one_too_far, overlap_twice, shorter_by_one, solution, touching, touching_with_context_unscored, unfinished, until_the_end, whole_text);

answers!("lesson_3", quality_of, quantlab_course::check_quality_of: below_noise, by_texts, ends_subtracted, error_of_the_loss, exact_divergence, exact_ratio, exp_of_divergence, helper, loops, loss, loss_for_divergence, mean_of_shares, noise_as_a_number, noise_itself, not_subtracted, other_top, percent, places, ratio_of_divergences, solution, texts, tokens_of_both, tokens_twice, top_of_noise, unfinished, upside_down, widest_ends, without_noise);
