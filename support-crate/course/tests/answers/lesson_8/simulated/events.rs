// A loop without end; the next arrival by position.
// right
fn simulated(
    jobs: &[Job],
    options: &ServerOptions,
    scheduler: &dyn Fn(&View) -> Plan,
    seconds: &dyn Fn(usize) -> f64,
) -> Vec<Progress> {
    let mut all: Vec<Progress> = Vec::new();
    for job in jobs { all.push(Progress { job: *job, past_tokens: 0, token_s: vec![] }); }
    let mut time = 0.0_f64;
    loop {
        let left = all.iter().filter(|p| p.token_s.len() < p.job.new_tokens).count();
        if left == 0 { return all; }
        let view = view_at(time, &all, options);
        let Plan { compute, .. } = scheduler(&view);
        let total = compute.iter().fold(0, |sum, part| sum + part.1);
        if total == 0 {
            match jobs.iter().position(|job| job.arrival_s > time) {
                Some(next) => time = jobs[next].arrival_s,
                None => return all,
            }
        } else {
            time = time + seconds(total);
            for (id, n) in compute.iter() {
                all[*id].past_tokens += n;
                let known = all[*id].job.prompt_tokens + all[*id].token_s.len();
                if all[*id].past_tokens >= known { all[*id].token_s.push(time); }
            }
        }
    }
}
