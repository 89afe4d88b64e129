//! Lesson 1: latency and precision.

use crate::answers;

mod reference {
    pub use quantlab::prelude::*;

    include!("answers/lesson_1/reference.rs");
}

answers!("lesson_1", resolve_dtype, quantlab::course::check_resolve_dtype: anything_goes, by_hand, case_sensitive, half_on_cpu, silent_fallback, solution, echo, unfinished);

answers!("lesson_1", load_model_and_tokenizer, quantlab::course::check_load_model_and_tokenizer: find_map, first_only, last_one_wins, other_tokenizer, solution, unresolved, vague_error, unfinished);

answers!("lesson_1", time_generate, quantlab::course::check_time_generate: always_cached, generate_inside, no_warm_up, not_synchronized, not_synchronized_before, own_clock, own_loop, prompt_counted, seconds_for_milliseconds, short_warm_up, solution, stops_at_eos, tokenizer_inside, warm_up_timed, other_warm_up, unfinished);

answers!("lesson_1", run_for_varied_lengths, quantlab::course::check_run_for_varied_lengths: characters_on_the_axis, cut_at_characters, more_tokens_for_longer, one_prompt, one_run, own_prompts, solution, targets_on_the_axis, unfinished);

answers!("lesson_1", run_varied_precision, quantlab::course::check_run_varied_precision: always_float32, another_prompt, one_after_the_other, other_token_counts, requested_as_label, solution, unfinished);
