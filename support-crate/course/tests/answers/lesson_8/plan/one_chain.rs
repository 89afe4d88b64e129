// Who is admitted is decided first, by room alone; then one chain of all, cut where the step ends.
// right
fn plan(view: &View) -> Plan {
    let needs: usize = view.running.iter().map(|r| r.final_tokens() - r.past_tokens).sum();
    let mut taken = needs;
    let admitted = view
        .waiting
        .iter()
        .take(view.max_running.saturating_sub(view.running.len()))
        .take_while(|request| {
            taken += request.final_tokens();
            taken <= view.free_tokens
        });
    let (decoding, reading): (Vec<_>, Vec<_>) = view.running.iter().partition(|r| r.is_decoding());
    let mut so_far = 0;
    let compute = decoding
        .into_iter()
        .chain(reading)
        .chain(admitted)
        .map(|request| {
            let tokens = request.to_compute().min(view.max_tokens_per_step - so_far);
            so_far += tokens;
            (request.id, tokens)
        })
        .filter(|(_, tokens)| *tokens > 0)
        .collect();
    Plan { compute, ..Plan::default() }
}
