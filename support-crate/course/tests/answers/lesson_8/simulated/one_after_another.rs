// The requests of a step one after another.
// wrong: one after another
fn simulated(
    jobs: &[Job],
    options: &ServerOptions,
    scheduler: &dyn Fn(&View) -> Plan,
    seconds: &dyn Fn(usize) -> f64,
) -> Vec<Progress> {
    let mut now = 0.0_f64;
    let mut requests: Vec<Progress> = jobs.iter().map(Progress::of).collect();
    while now.is_finite() && requests.iter().any(|request| !request.is_done()) {
        let plan = scheduler(&view_at(now, &requests, options)).compute;
        if plan.is_empty() {
            let later = jobs.iter().map(|job| job.arrival_s).filter(|at| *at > now);
            now = later.fold(f64::INFINITY, f64::min);
            continue;
        }
        for (id, tokens) in plan {
            now += seconds(tokens);
            let request = &mut requests[id];
            request.past_tokens += tokens;
            if request.past_tokens == request.tokens() {
                request.token_s.push(now);
            }
        }
    }
    requests
}
