// Takes only the chunk from the room, when a newcomer is admitted.
// wrong: not only for what is computed now
fn plan(view: &View) -> Plan {
    let mut left = view.max_tokens_per_step;
    let mut compute: Vec<(usize, usize)> = Vec::new();
    for request in view.running.iter().filter(|r| r.is_decoding()) {
        if left == 0 {
            break;
        }
        compute.push((request.id, 1));
        left -= 1;
    }
    for request in view.running.iter().filter(|r| !r.is_decoding()) {
        let tokens = request.to_compute().min(left);
        if tokens == 0 {
            break;
        }
        compute.push((request.id, tokens));
        left -= tokens;
    }
    let promised = view.running.iter().map(|r| r.final_tokens() - r.past_tokens).sum::<usize>();
    let mut room = view.free_tokens.saturating_sub(promised);
    let mut places = view.max_running.saturating_sub(view.running.len());
    for request in &view.waiting {
        if left == 0 || places == 0 {
            break;
        }
        if request.final_tokens() > room {
            break;
        }
        let tokens = request.to_compute().min(left);
        compute.push((request.id, tokens));
        left -= tokens;
        places -= 1;
        room -= tokens;
    }
    Plan { preempt: vec![], compute }
}
