// A helper that plays one step and calls itself.
// right
fn simulated(
    jobs: &[Job],
    options: &ServerOptions,
    scheduler: &dyn Fn(&View) -> Plan,
    seconds: &dyn Fn(usize) -> f64,
) -> Vec<Progress> {
    fn from(
        now: f64,
        mut requests: Vec<Progress>,
        options: &ServerOptions,
        scheduler: &dyn Fn(&View) -> Plan,
        seconds: &dyn Fn(usize) -> f64,
    ) -> Vec<Progress> {
        if requests.iter().all(Progress::is_done) {
            return requests;
        }
        let plan = scheduler(&view_at(now, &requests, options));
        if plan.compute.is_empty() {
            let next = requests.iter().map(|one| one.job.arrival_s).filter(|at| *at > now).reduce(f64::min);
            return match next {
                Some(at) => from(at, requests, options, scheduler, seconds),
                None => requests,
            };
        }
        let end = now + seconds(plan.compute.iter().map(|pair| pair.1).sum());
        for (id, progress) in requests.iter_mut().enumerate() {
            for (_, tokens) in plan.compute.iter().filter(|pair| pair.0 == id) {
                let read_all = progress.past_tokens + tokens == progress.tokens();
                progress.past_tokens += tokens;
                progress.token_s.extend(read_all.then_some(end));
            }
        }
        from(end, requests, options, scheduler, seconds)
    }
    from(0.0, jobs.iter().map(|job| Progress::of(job)).collect(), options, scheduler, seconds)
}
