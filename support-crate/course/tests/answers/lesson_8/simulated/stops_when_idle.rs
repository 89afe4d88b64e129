// Stops when nobody is there.
// wrong: go on at the next arrival
fn simulated(
    jobs: &[Job],
    options: &ServerOptions,
    scheduler: &dyn Fn(&View) -> Plan,
    seconds: &dyn Fn(usize) -> f64,
) -> Vec<Progress> {
    let mut requests: Vec<Progress> = jobs.iter().map(|job| Progress::of(job)).collect();
    let mut now = 0.0f64;
    while requests.iter().any(|request| !request.is_done()) {
        let plan = scheduler(&view_at(now, &requests, options));
        if plan.compute.is_empty() {
            break;
        }
        now += seconds(plan.compute.iter().map(|pair| pair.1).sum());
        for (id, tokens) in plan.compute {
            let request = &mut requests[id];
            request.past_tokens += tokens;
            if request.past_tokens == request.tokens() {
                request.token_s.push(now);
            }
        }
    }
    requests
}
