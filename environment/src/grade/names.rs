//! Students' names as nbgrader and folders take them.

use std::collections::{BTreeSet, HashMap};

use sha2::{Digest, Sha256};

/// In bytes: the names of files add extensions to it, and have at most 255 bytes in all.
const LONGEST: usize = 64;
/// What is left of a name before its hash.
const LONGEST_READABLE: usize = 40;

/// An id for each name: the name itself, or, if folders or nbgrader cannot use that, what is readable of it, a tilde,
/// which no usable name has, and a hash.
pub fn ids<'a>(names: impl IntoIterator<Item = &'a str>) -> HashMap<&'a str, String> {
    let names: BTreeSet<&str> = names.into_iter().collect();
    // Some file systems do not tell cases apart.
    let mut alike: HashMap<String, usize> = HashMap::new();
    names.iter().for_each(|name| *alike.entry(name.to_lowercase()).or_default() += 1);
    let id = |name: &str| match is_plain(name) && alike[&name.to_lowercase()] == 1 {
        true => name.to_owned(),
        false => hashed(name),
    };
    names.iter().map(|name| (*name, id(name))).collect()
}

/// nbgrader looks students up by file patterns, and takes a plus for a separator; an id also becomes an argument.
fn is_plain(name: &str) -> bool {
    let ends_well = !name.starts_with(['.', '-', ' ']) && !name.ends_with(['.', ' ']);
    (1..=LONGEST).contains(&name.len()) && ends_well && name.chars().all(may_stand)
}

fn may_stand(c: char) -> bool {
    c.is_alphanumeric() || "._@- ".contains(c)
}

fn hashed(name: &str) -> String {
    let readable = name.replace(|c| !may_stand(c), "_");
    let readable = readable.trim_start_matches(['.', '-', ' ']);
    let readable = &readable[..readable.floor_char_boundary(LONGEST_READABLE)];
    let hash: String = Sha256::digest(name).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{readable}~{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_name_is_its_own_id() {
        for name in ["smith", "ann-marie smith", "müller_7", "李雷", "a@b.example", "to-record", "first-kernel.log"]
        {
            assert_eq!(ids([name])[name], name);
        }
    }

    #[test]
    fn no_two_names_have_one_id_and_each_id_is_a_folder() {
        let [long, other] = ["x", "y"].map(|end| format!("{}{end}", "n".repeat(254)));
        let names = [
            "a+b", "a*b", "a_b", "a/b", "a,b", "a\nb", "a\u{1b}b", "=1+1", "-smith", "smith", "Smith", "SMITH", "",
            ".", "..", "...", "smith.", "smith ", " smith", "smith~1", "[a]", "a[1]*", "+", "~", "e\u{301}", "é",
            &long, &other,
        ];
        let ids = ids(names);
        let folders: BTreeSet<String> = ids.values().map(|id| id.to_lowercase()).collect();
        assert_eq!(folders.len(), names.len(), "{ids:?}");
        let dir = tempfile::tempdir().unwrap();
        for id in ids.values() {
            assert!(
                id.len() <= LONGEST && !id.contains(['+', '*', '[', '/', ',', '=']) && !id.starts_with('-'),
                "{id}"
            );
            std::fs::create_dir(dir.path().join(id)).unwrap();
        }
        assert!(ids["a+b"].starts_with("a_b~"), "{ids:?}");
        assert_eq!(self::ids(["a+b"])["a+b"], ids["a+b"], "whoever else is in the class");
    }
}
