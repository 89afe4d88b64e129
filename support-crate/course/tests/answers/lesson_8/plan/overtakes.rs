// Lets small ones pass.
// wrong: those after it wait
fn plan(view: &View) -> Plan {
    fn plan_len(view: &View) -> usize { view.max_running - view.running.len() }
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
    for request in view.waiting.iter() {
        if request.final_tokens() > room || plan_len(&view) == 0 {
            continue;
        }
        take(request);
        room -= request.final_tokens();
    }
    plan
}
