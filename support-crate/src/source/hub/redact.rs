//! Messages without what must not be shown.

/// The message without the token, passwords in addresses, and signed queries.
pub(super) fn redact(message: &str, token: Option<&str>) -> String {
    let shown = match token {
        Some(token) => message.replace(token, "***"),
        None => message.to_owned(),
    };
    let words: Vec<String> = shown.split(' ').map(redact_address).collect();
    words.join(" ")
}

fn redact_address(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(authority_end);
    let host = authority.rsplit('@').next().unwrap_or(authority);
    let path = path.split('?').next().unwrap_or(path);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_passwords_and_signatures_are_hidden() {
        assert_eq!(redact("at https://me:secret@hub.co/a?sig=1 (x)", None), "at https://hub.co/a (x)");
        assert_eq!(redact("`hf_abc` is no token, hf_abc!", Some("hf_abc")), "`***` is no token, ***!");
    }
}
