// Admits nobody any more when 1 token is left.
// wrong: the plan with running
fn plan(view: &View) -> Plan {
    let (mut plan, mut budget) = (Plan::default(), view.max_tokens_per_step);
    let mut take = |request: &RequestState| {
        let tokens = request.to_compute().min(budget);
        budget -= tokens;
        plan.compute.extend((tokens > 0).then_some((request.id, tokens)));
        budget
    };
    let mut room = view.free_tokens;
    for decodes in [true, false] {
        for request in view.running.iter().filter(|request| request.is_decoding() == decodes) {
            take(request);
            room = room.saturating_sub(request.final_tokens() - request.past_tokens);
        }
    }
    let places = view.max_running - view.running.len();
    for request in view.waiting.iter().take(places) {
        if request.final_tokens() > room || take(request) <= 1 {
            break;
        }
        room -= request.final_tokens();
    }
    plan
}
