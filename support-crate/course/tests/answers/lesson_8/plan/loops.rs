// Three plain loops.
// right
fn plan(view: &View) -> Plan {
    let mut compute: Vec<(usize, usize)> = Vec::new();
    let mut used = 0;
    let mut reserved = 0;
    for r in &view.running {
        reserved += r.final_tokens() - r.past_tokens;
        if r.is_decoding() && used < view.max_tokens_per_step {
            compute.push((r.id, 1));
            used += 1;
        }
    }
    for r in &view.running {
        let n = r.to_compute().min(view.max_tokens_per_step - used);
        if !r.is_decoding() && n > 0 {
            compute.push((r.id, n));
            used += n;
        }
    }
    let mut running = view.running.len();
    for r in &view.waiting {
        reserved += r.final_tokens();
        if running == view.max_running || used == view.max_tokens_per_step || reserved > view.free_tokens {
            break;
        }
        running += 1;
        let n = r.to_compute().min(view.max_tokens_per_step - used);
        compute.push((r.id, n));
        used += n;
    }
    Plan { preempt: vec![], compute }
}
