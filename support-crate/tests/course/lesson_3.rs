//! Lesson 3: perplexity.

use crate::answers;

mod reference {
    pub use quantlab::prelude::*;

    include!("answers/lesson_3/reference.rs");
}

answers!("lesson_3", log_softmax_at, quantlab::course::check_log_softmax_at: bits, log_of_softmax, log_sum_exp, loop_in_f32, negated, overflows, probability, raw_logit, solution, unfinished);

answers!("lesson_3", pad_batch, quantlab::course::check_pad_batch: cut_to_shortest, fixed_length, inverted_mask, left, mask_by_id, no_mask, not_padded, other_padding, solution, unfinished);

answers!("lesson_3", sequence_loss, quantlab::course::check_sequence_loss: after_left_padding, averaged, first_row, first_token_counted, iterators, log_likelihood, not_shifted, one_less, one_too_far, padding_counted, shifted_back, solution, text_only, unfinished);

answers!("lesson_3", evaluate, quantlab::course::check_evaluate: all_at_once, all_tokens, base_two, drops_last_batch, left_without_mask, mean_of_batch_means, mean_of_perplexities, mean_of_text_means, nan_for_nothing, not_shifted, nothing_works, one_at_a_time, padding_scored, per_text, solution, sorted_by_length, sum_of_losses, weighted_means, unfinished);

answers!("lesson_3", time_reference_prompt, quantlab::course::check_time_reference_prompt: loop_with_runs_of, no_warm_up, not_synchronized, not_synchronized_before, one_long_run, own_clock, prompt_counted, seconds_per_token, solution, stops_at_eos, text_inside, tokenizer_inside, warm_up_counted, unfinished);
