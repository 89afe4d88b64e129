//! Chat templates against transformers, and conversations with a real model.

use std::collections::BTreeMap;
use std::fs;

use crate::common::{golden, tiny};
use quantlab::error::{Error, Result};
use quantlab::generate::{Chat, ChatTemplate, GenerateOptions, Message};
use quantlab::model::{
    CacheFormat, CacheStorage, Engine, EngineModel, LoadOptions, Loaded, Logits, ModelInfo, Step, load_model,
};
use serde_json::Value;

#[test]
fn templates_make_the_text_that_transformers_makes() {
    let golden: Value = serde_json::from_slice(&fs::read(golden().join("chat/cases.json")).unwrap()).unwrap();
    let special: BTreeMap<String, String> = serde_json::from_value(golden["special_tokens"].clone()).unwrap();
    let mut refused = 0;
    for case in golden["cases"].as_array().unwrap() {
        let name = case["template"].as_str().unwrap();
        let template = ChatTemplate::new(golden["templates"][name].as_str().unwrap(), special.clone());
        let turn = |turn: &Value| Message::new(turn[0].as_str().unwrap(), turn[1].as_str().unwrap());
        let messages: Vec<Message> = case["messages"].as_array().unwrap().iter().map(turn).collect();
        let rendered = template.render(&messages, case["add_generation_prompt"].as_bool().unwrap());
        match case["text"].as_str() {
            Some(text) => assert_eq!(rendered.unwrap(), text, "{name}: {messages:?}"),
            None => {
                let error = rendered.unwrap_err().to_string();
                assert!(error.contains(case["error"].as_str().unwrap()), "{name}: {error}, not {}", case["error"]);
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
}

#[test]
fn templates_that_are_none_or_have_no_end_are_refused() {
    let render = |source: &str| {
        let error = ChatTemplate::new(source, BTreeMap::new()).render(&[Message::new("user", "x")], true);
        error.unwrap_err().to_string()
    };
    for source in [
        "{% for",
        "{{ messages[",
        "{% for a in range(99999999) %}{% for b in range(99999999) %}{% endfor %}{% endfor %}",
        "{% for a in range(9999) %}{{ 'x' * 99999 }}{% endfor %}",
        "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{{ unknown_function() }}",
        "{{ messages[0].content.unknown_method() }}",
        "{% include 'file' %}",
        "{{ 'x' * 99999999999999 }}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{{ ['a']|batch(400000000000) }}",
        "{{ (['a'] * 400000000000)|batch(3) }}",
        "{{ ['a']|slice(400000000000) }}",
        "{{ (['a'] * 400000000000)|list }}",
        "{{ 'x'|indent(10000000000000) }}",
        "{{ 'x'|indent(width=10000000000000) }}",
        "{{ ('x\n' * 9999)|indent(999999) }}",
        "{{ '%99999999999d'|format(1) }}",
        "{{ '%(a).99999999999f'|format(a=1) }}",
        "{{ '{:>99999999999}'.format('x') }}",
        "{{ [1]|tojson(indent=10000000000000) }}",
        "{% set ns = namespace(x=[]) %}{% for i in range(200) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x|tojson }}",
        // A precision that the standard library panics on.
        "{{ '%.70000f'|format(1.5) }}",
    ] {
        let error = render(source);
        assert!(error.contains("the model's chat template"), "{source}: {error}");
        assert!(error.len() < 1000, "{source}: {error}");
    }
}

/// What Python answers.
#[test]
fn filters_and_methods_are_pythons() {
    let messages = [Message::new("user", "a<b>&'\"\\\n\t\u{e9}\u{1f600}\u{1}\u{7f}")];
    let made = "{'a': [1, 2.5, 1e16, 1e-7, none, true], 'b': {}, 'c': []}";
    for (expression, expected) in [
        ("messages|tojson", r#"[{"role": "user", "content": "a<b>&'\"\\\n\té😀\u0001DEL"}]"#),
        ("messages|tojson(true)", r#"[{"role": "user", "content": "a<b>&'\"\\\n\t\u00e9\ud83d\ude00\u0001\u007f"}]"#),
        ("MADE|tojson", r#"{"a": [1, 2.5, 1e+16, 1e-07, null, true], "b": {}, "c": []}"#),
        ("MADE|tojson(separators=(',', ':'))", r#"{"a":[1,2.5,1e+16,1e-07,null,true],"b":{},"c":[]}"#),
        (
            "MADE|tojson(indent=2)",
            "{\n  \"a\": [\n    1,\n    2.5,\n    1e+16,\n    1e-07,\n    null,\n    true\n  ],\n  \"b\": {},\n  \"c\": []\n}",
        ),
        ("[1, [2]]|tojson(indent=0)", "[\n1,\n[\n2\n]\n]"),
        ("[1, [2]]|tojson(indent='--')", "[\n--1,\n--[\n----2\n--]\n]"),
        ("'%5.1f|%s'|format(1.25, 'x')", "  1.2|x"),
        ("'{:>3}|{}'.format('x', 1)", "  x|1"),
        ("'ab'.count('')", "3"),
        ("'a\\nb'|indent(2)", "a\n  b"),
    ] {
        let source = format!("{{{{ {} }}}}", expression.replace("MADE", made));
        let rendered = ChatTemplate::new(source, BTreeMap::new()).render(&messages, false);
        assert_eq!(rendered.unwrap(), expected.replace("DEL", "\u{7f}"), "{expression}");
    }
}

/// transformers renders what is between its marks for training, and says that there are no tools and documents.
#[test]
fn marks_of_what_the_assistant_says_are_no_text() {
    let source = "{% for m in messages %}\n{%- generation -%} {{ m.content }} {%- endgeneration %}\n{% endfor %}\
                  {%- if tools is not none or documents is not none %}tools{% endif %}{% generation%}.{%endgeneration %}\
                  {{ 'generation' }}{{ '{%' }}";
    let messages = ["a", "b"].map(|content| Message::new("assistant", content));
    let render = |source: &str| ChatTemplate::new(source, BTreeMap::new()).render(&messages, false);
    assert_eq!(render(source).unwrap(), "ab.generation{%");
    assert!(render("{% endgeneration %}").is_err());
    assert!(render("{% generation").is_err());
}

/// A text does not depend on the day that it is made.
#[test]
fn templates_that_ask_for_the_date_are_told_one() {
    let date = |source: &str| ChatTemplate::new(source, BTreeMap::new()).render(&[], true).unwrap();
    assert_eq!(date("Today Date: {{ strftime_now('%d %B %Y') }}"), "Today Date: 26 July 2024");
    let asks = "{% if strftime_now is defined %}{{ strftime_now('%Y') }}{% else %}none{% endif %}";
    assert_eq!(date(asks), "none");
}

#[test]
fn a_model_that_does_not_chat_says_so() {
    let error = load_model(&["embedded"], &LoadOptions::default()).unwrap().chat().unwrap_err();
    assert!(error.to_string().contains("no chat template"), "{error}");
    assert!(error.hint_text().unwrap().contains("smollm2"));
}

/// The tiny model, with a template.
fn that_chats() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in fs::read_dir(tiny()).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    let template = "{{ bos_token }}{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}\
                    {% if messages[-1].content == 'no' %}{{ raise_exception('not this') }}{% endif %}assistant:";
    let config = serde_json::json!({"chat_template": [{"name": "default", "template": template}], "bos_token": {"content": "a"}});
    fs::write(folder.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    folder
}

/// In a folder that says what `tokenizer_config.json` and `generation_config.json` of models say.
#[test]
fn a_conversation_is_computed_once_and_is_what_it_was_before_an_error() {
    let folder = that_chats();
    fs::write(folder.path().join("generation_config.json"), r#"{"do_sample": true, "temperature": 0.5, "top_k": 0}"#)
        .unwrap();
    let load = || load_model(&[folder.path().to_str().unwrap()], &LoadOptions::default()).unwrap();
    let mut chat = load().chat().unwrap();
    assert!(chat.options.do_sample && chat.options.temperature == 0.5 && chat.options.top_k.is_none());
    (chat.options.do_sample, chat.options.max_new_tokens) = (false, 6);
    let first = chat.reply("Hello", |_| ()).unwrap();
    assert_eq!(first.tokens.len(), 6);
    let known = chat.cached_tokens();
    assert!(known >= first.prompt_tokens);
    let before = chat.messages().to_vec();
    assert!(chat.reply("no", |_| ()).unwrap_err().to_string().contains("not this"));
    assert_eq!(chat.messages(), before);
    assert!(chat.system("late").unwrap_err().to_string().contains("has begun"));
    let mut briefed = load().chat().unwrap();
    briefed.system("Be brief.").unwrap();
    assert!(briefed.system("Be kind.").unwrap_err().to_string().contains("a system message already"));
    let mut pieces = String::new();
    let second = chat.reply("And now", |text| pieces.push_str(text)).unwrap();
    assert_eq!(pieces, second.text);
    // The same as a conversation that is read at once.
    let mut whole = load().chat().unwrap();
    whole.options = chat.options.clone();
    let mut replies = Vec::new();
    for content in ["Hello", "And now"] {
        replies.push(whole.reply(content, |_| ()).unwrap());
    }
    assert_eq!(replies[1].tokens, second.tokens);
    chat.forget();
    assert_eq!(chat.reply("Hello", |_| ()).unwrap().tokens, first.tokens);
    chat.options.max_new_tokens = 0;
    assert!(chat.reply("Hello", |_| ()).is_err());
    chat.options.max_new_tokens = 6;
    let error = chat.reply(&"word ".repeat(2000), |_| ()).unwrap_err().to_string();
    assert!(error.contains("the model's context"), "{error}");
}

/// Files have these, and transformers takes them.
#[test]
fn settings_that_nothing_needs_are_no_errors() {
    let folder = that_chats();
    let chat = |config: &str| {
        fs::write(folder.path().join("generation_config.json"), config).unwrap();
        let mut chat = load_model(&[folder.path().to_str().unwrap()], &LoadOptions::default()).unwrap().chat().unwrap();
        chat.options.max_new_tokens = 2;
        chat
    };
    for config in [
        r#"{"do_sample": false, "temperature": 0.0, "top_p": 0, "eos_token_id": [2, null]}"#,
        r#"{"temperature": null, "top_k": -1, "eos_token_id": -1}"#,
    ] {
        chat(config).reply("Hello", |_| ()).unwrap();
    }
    let kept = chat(r#"{"temperature": 0.5, "top_k": 7}"#).options;
    assert_eq!((kept.do_sample, kept.temperature, kept.top_k), (false, 0.5, Some(7)));
    // What transformers takes where a file that samples does not say it.
    let top_k = |config: &str| chat(config).options.top_k;
    assert_eq!((top_k(r#"{"do_sample": true}"#), top_k(r#"{"do_sample": true, "top_k": 0}"#)), (Some(50), None));
    assert_eq!(top_k("{}"), None);
    let said = chat(r#"{"min_new_tokens": 300, "stop_strings": "END"}"#).options;
    assert_eq!((said.min_new_tokens, said.stop_strings), (300, vec!["END".to_owned()]));
    assert_eq!(chat(r#"{"stop_strings": ["a", "b"], "forced_bos_token_id": 0}"#).options.stop_strings, ["a", "b"]);
    // The token that would be next ends the reply.
    let first = chat("{}").reply("Hello", |_| ()).unwrap().tokens[0];
    for ends in [format!("{first}"), format!("[-1, {first}]")] {
        let reply = chat(&format!(r#"{{"eos_token_id": {ends}}}"#)).reply("Hello", |_| ()).unwrap();
        assert_eq!(reply.tokens.len(), 1, "{ends}");
    }
    let error = chat(r#"{"do_sample": true, "temperature": 0.0}"#).reply("Hello", |_| ()).unwrap_err();
    assert!(error.to_string().contains("`temperature` is 0"), "{error}");
}

/// transformers would reply otherwise.
#[test]
fn settings_that_change_replies_and_are_not_computed() {
    let folder = that_chats();
    let chat = |config: &str| {
        fs::write(folder.path().join("generation_config.json"), config).unwrap();
        load_model(&[folder.path().to_str().unwrap()], &LoadOptions::default()).unwrap().chat()
    };
    for config in [r#"{"do_sample": true, "min_p": 0.1}"#, r#"{"no_repeat_ngram_size": 3}"#] {
        let error = chat(config).unwrap_err().to_string();
        assert!(error.contains("generation_config.json: `") && error.contains("not computed here"), "{error}");
    }
    chat(r#"{"min_p": 0.1, "no_repeat_ngram_size": 0}"#).unwrap();
}

#[test]
fn a_cache_of_another_format_is_not_used_any_more() {
    let options = LoadOptions { engine: Some(Engine::Candle), ..LoadOptions::default() };
    let folder = that_chats();
    let mut chat = load_model(&[folder.path().to_str().unwrap()], &options).unwrap().chat().unwrap();
    chat.options.max_new_tokens = 2;
    chat.reply("Hello", |_| ()).unwrap();
    chat.options.cache_format = Some(CacheFormat::Int8);
    let error = chat.reply("And now", |_| ()).unwrap_err().to_string();
    assert!(error.contains("keys and values in int8"), "{error}");
    chat.options.cache_format = None;
    chat.reply("And now", |_| ()).unwrap();
}

/// A model to which all tokens are equally likely, with memory for a cache of so many tokens.
#[derive(Debug)]
struct Undecided {
    info: ModelInfo,
    most: usize,
}

impl EngineModel for Undecided {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn compute(&self, step: &Step<'_>, _storage: Option<&mut CacheStorage>) -> Result<Logits> {
        let positions = step.wanted.as_ref().map_or(step.ids.len(), Vec::len);
        Logits::new(vec![0.0; positions * self.info.vocab_size], step.batch, self.info.vocab_size)
    }

    fn allocate_cache(&self, _batch: usize, capacity: usize, _format: Option<CacheFormat>) -> Result<CacheStorage> {
        match capacity <= self.most {
            true => Ok(CacheStorage::nothing()),
            false => Err(Error::system(format!("no memory for {capacity} tokens"))),
        }
    }

    fn retain_rows(&self, _storage: &mut CacheStorage, _rows: &[usize], _past_len: usize) -> Result<()> {
        Ok(())
    }
}

/// A conversation with it, in replies of 6 tokens.
fn undecided(most: usize) -> Chat {
    let folder = that_chats();
    let loaded = load_model(&[folder.path().to_str().unwrap()], &LoadOptions::default()).unwrap();
    let info = ModelInfo { context_len: 1000, ..loaded.model.info().clone() };
    let mut chat = Loaded { model: Box::new(Undecided { info, most }), ..loaded }.chat().unwrap();
    chat.options = GenerateOptions { max_new_tokens: 6, stop_at_eos: false, ..GenerateOptions::default() };
    chat
}

#[test]
fn each_reply_draws_numbers_of_its_own_and_a_conversation_the_same_again() {
    let mut chat = undecided(1000);
    chat.options.do_sample = true;
    let replies = |chat: &mut Chat| ["Hello", "Hello"].map(|content| chat.reply(content, |_| ()).unwrap().tokens);
    let first = replies(&mut chat);
    assert_ne!(first[0], first[1]);
    chat.forget();
    assert_eq!(replies(&mut chat), first);
    chat.forget();
    chat.options.seed = 1;
    assert_ne!(replies(&mut chat), first);
}

#[test]
fn a_reply_needs_memory_for_itself_alone() {
    let prompt_tokens = undecided(1000).reply("Hello", |_| ()).unwrap().prompt_tokens;
    let reply = |most| undecided(most).reply("Hello", |_| ());
    assert_eq!(reply(prompt_tokens + 6).unwrap().tokens.len(), 6);
    let (needed, error) = (prompt_tokens + 6, reply(prompt_tokens + 5).unwrap_err().to_string());
    assert!(error.contains(&format!("no memory for {needed} tokens")), "{error}");
}

/// `cargo lab setup --model smollm2` brings the model.
#[test]
fn smollm2_answers() {
    let Ok(loaded) = load_model(&["smollm2"], &LoadOptions::default()) else {
        println!("not run: `cargo lab setup --model smollm2` was not");
        return;
    };
    let cases: Value = serde_json::from_slice(&fs::read(golden().join("smollm2/cases.json")).unwrap()).unwrap();
    let mut chat = loaded.chat().unwrap();
    for case in cases["chats"].as_array().unwrap() {
        let text = |value: &Value, key: &str| value[key].as_str().unwrap().to_owned();
        let turns = case["messages"].as_array().unwrap().iter();
        let messages: Vec<Message> =
            turns.map(|turn| Message::new(text(turn, "role"), text(turn, "content"))).collect();
        assert_eq!(chat.template().render(&messages, true).unwrap(), text(case, "rendered"));
    }
    chat.options.max_new_tokens = 40;
    let reply = chat.reply("What is the capital of France? Answer in one short sentence.", |_| ()).unwrap();
    assert!(reply.text.contains("Paris"), "{}", reply.text);
    let before = chat.cached_tokens();
    let reply = chat.reply("And of Italy?", |_| ()).unwrap();
    assert!(reply.text.contains("Rome"), "{}", reply.text);
    assert!(chat.cached_tokens() > before);
}
