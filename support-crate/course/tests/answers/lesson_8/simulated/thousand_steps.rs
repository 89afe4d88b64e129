// At most a thousand steps.
// wrong: wants 1200 tokens
fn simulated(
    jobs: &[Job],
    options: &ServerOptions,
    scheduler: &dyn Fn(&View) -> Plan,
    seconds: &dyn Fn(usize) -> f64,
) -> Vec<Progress> {
    let mut requests: Vec<Progress> = jobs.iter().map(|job| Progress::of(job)).collect();
    let mut now = 0.0f64;
    for _ in 0..1000 {
        let plan = scheduler(&view_at(now, &requests, options));
        if plan.compute.is_empty() {
            let next = jobs.iter().map(|job| job.arrival_s).filter(|at| *at > now).fold(f64::INFINITY, f64::min);
            if next == f64::INFINITY {
                break;
            }
            now = next;
            continue;
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
