//! The list of a folder of archives, signed, and the download of one of them.
//!
//! `index.json` names archives with their SHA-256; `index.json.minisig` is its signature in minisign's format, by the key
//! whose public half is `environment/prebuilt.pub` of the checkout. So an archive may lie on any server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use minisign_verify::{PublicKey, Signature};
use serde::{Deserialize, Serialize};

use super::facts::Facts;
use crate::checkout::Checkout;
use crate::home::{Home, non_empty_var, remove_if_there};
use crate::setup::libtorch::FETCH_WHEEL;
use crate::setup::toolchain::Toolchain;
use crate::ui::run_shown;

/// The list's file; its signature has `.minisig` behind it.
pub const INDEX: &str = "index.json";
/// The public key, in a checkout.
pub const KEY: &str = "environment/prebuilt.pub";
/// Names another key, for whoever trusts somebody else's archives.
const OTHER_KEY: &str = "QUANTLAB_PREBUILT_KEY";

/// What a folder has.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Index {
    pub archives: Vec<Listed>,
}

/// An archive in the folder.
#[derive(Debug, Serialize, Deserialize)]
pub struct Listed {
    /// Its name there.
    pub file: String,
    pub sha256: String,
    pub facts: Facts,
}

impl Index {
    /// Reads a list, if it is signed with this key.
    fn verified(text: &[u8], signature: &str, key: &str) -> Result<Self> {
        let key =
            PublicKey::decode(key).or_else(|_| PublicKey::from_base64(key.trim())).context("the key is damaged")?;
        let signature = Signature::decode(signature).context("its signature is damaged")?;
        key.verify(text, &signature, false).context("it is not signed with this checkout's key")?;
        serde_json::from_slice(text).context("it is signed, but not a list of archives")
    }

    /// The first archive that fits a machine; else what does not fit, for each.
    fn choose(&self, here: &Facts) -> Result<&Listed, Vec<String>> {
        let misfit = |listed: &Listed| format!("{}: {}", listed.file, listed.facts.misfits(here).join("; "));
        let found = self.archives.iter().find(|listed| listed.facts.misfits(here).is_empty());
        found.ok_or_else(|| self.archives.iter().map(misfit).collect())
    }
}

/// Downloads the archive that fits this machine from a folder on a server. None, with the reason on screen, if there is
/// none.
pub fn fetch(home: &Home, checkout: &Checkout, tools: &Toolchain, address: &str) -> Result<Option<PathBuf>> {
    let key = key(checkout)?;
    let address = address.trim_end_matches('/');
    let downloads = home.downloads();
    let text = download(tools, &format!("{address}/{INDEX}"), "-", &downloads.join(INDEX))?;
    let name = format!("{INDEX}.minisig");
    let signature = download(tools, &format!("{address}/{name}"), "-", &downloads.join(&name))?;
    let index = Index::verified(&fs::read(&text)?, &fs::read_to_string(&signature)?, &key)
        .with_context(|| format!("nothing was taken from {address}: {INDEX}"));
    remove_if_there(&text)?;
    remove_if_there(&signature)?;
    let index = index?;
    let listed = match index.choose(&Facts::here(tools)) {
        Ok(listed) => listed,
        Err(misfits) => {
            eprintln!("No archive there fits this machine, so everything is compiled:\n  {}", misfits.join("\n  "));
            return Ok(None);
        }
    };
    if listed.file.contains('/') || listed.file.starts_with('.') {
        bail!("{INDEX} at {address} names {}, which is no file beside it", listed.file);
    }
    eprintln!("Fetching {} from {address}", listed.file);
    download(tools, &format!("{address}/{}", listed.file), &listed.sha256, &downloads.join(&listed.file)).map(Some)
}

fn key(checkout: &Checkout) -> Result<String> {
    let file = non_empty_var(OTHER_KEY).map_or_else(|| checkout.root().join(KEY), PathBuf::from);
    fs::read_to_string(&file).with_context(|| {
        format!(
            "there is no key to check archives with: {}\n  try: ask who publishes them for their public key, and name its \
             file with {OTHER_KEY}; or set up without --from",
            file.display()
        )
    })
}

/// A file whose SHA-256 is this one (`-`: any), taken up again where an earlier download broke off.
fn download(tools: &Toolchain, address: &str, sha256: &str, file: &Path) -> Result<PathBuf> {
    run_shown(Command::new(&tools.python).args(["-c", FETCH_WHEEL, address, sha256]).arg(file))
        .with_context(|| format!("cannot fetch {address}"))?;
    Ok(file.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::facts::tests::facts;
    use super::*;

    // Made by minisign 0.11 for these tests: `minisign -GW`, `minisign -S`.
    const PUBLIC: &str = "untrusted comment: minisign public key 31DD343960D5FEAC\n\
        RWSs/tVgOTTdMbKABOEDyuDesEHQpVRynUkOpKorxaNHmQCIkfAAyKwp";
    const TEXT: &str = r#"{"archives":[]}"#;
    const SIGNATURE: &str = "untrusted comment: signature from minisign secret key\n\
        RUSs/tVgOTTdMTzKRBZMIVaD5GeVqzGf9kT41EaWa+mtPO+lf1+9b9ZuqcXscXbZvp1L6WFVmFnqEPyNZUFdSfS4lmipmMIriAQ=\n\
        trusted comment: timestamp:1795714382	file:index.json	hashed\n\
        ThktkRxiGkRaVx5Ap7yWH1uSS3X1m+TsgpF2FTWpwP5agyONEnWtASFmhDR4G+y0GLj7PuI9nhBul0IsJo4RAw==";

    #[test]
    fn only_what_is_signed_with_the_key_is_read() {
        assert!(Index::verified(TEXT.as_bytes(), SIGNATURE, PUBLIC).unwrap().archives.is_empty());
        let bare = PUBLIC.lines().nth(1).unwrap();
        Index::verified(TEXT.as_bytes(), SIGNATURE, bare).unwrap();
        let says = |text: &str, signature: &str, key: &str| {
            format!("{:#}", Index::verified(text.as_bytes(), signature, key).unwrap_err())
        };
        let other = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
        assert!(says(r#"{"archives":[] }"#, SIGNATURE, PUBLIC).contains("not signed with this checkout's key"));
        assert!(says(TEXT, SIGNATURE, other).contains("not signed with this checkout's key"));
        assert!(says(TEXT, "a signature", PUBLIC).contains("its signature is damaged"));
        assert!(says(TEXT, SIGNATURE, "a key").contains("the key is damaged"));
    }

    #[test]
    fn the_archive_of_this_machine_is_chosen_or_each_misfit_named() {
        let listed = |file: &str, facts| Listed { file: file.to_owned(), sha256: String::new(), facts };
        let arm = Facts { architecture: "aarch64".to_owned(), ..facts() };
        let index = Index { archives: vec![listed("arm", arm), listed("intel", facts())] };
        assert_eq!(index.choose(&facts()).unwrap().file, "intel");
        let old = Facts { glibc: "2.31".to_owned(), ..facts() };
        let misfits = index.choose(&old).unwrap_err();
        assert!(misfits[0].starts_with("arm: processor") && misfits[1].starts_with("intel: C library"), "{misfits:?}");
    }
}
