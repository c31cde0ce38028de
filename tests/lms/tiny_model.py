"""A small random model and a byte tokenizer, saved as a folder, for tests that need a model but no knowledge."""

from pathlib import Path

TURNS = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
CHAT_TEMPLATE = TURNS + "{% if add_generation_prompt %}<assistant>{% endif %}"


def save_tiny_model(
    folder: Path, *, kind: str = "qwen2", seed: int = 0, context: int = 2048, template: bool = True, **overrides: object
) -> Path:
    """Save a model of some kind (qwen2, llama, mistral, gemma3_text, gpt2) with random weights."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

    vocabulary = {char: i for i, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    for special in ("<pad>", "<eos>"):
        vocabulary[special] = len(vocabulary)
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<eos>")
    if template:
        tokenizer.chat_template = CHAT_TEMPLATE
    sizes: dict[str, object] = {
        "vocab_size": len(vocabulary),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": context,
        "eos_token_id": vocabulary["<eos>"],
        "pad_token_id": vocabulary["<pad>"],
        "bos_token_id": None,
        # Large random weights make the next token depend on the whole prompt.
        "initializer_range": 0.3,
    }
    if kind == "gpt2":
        del sizes["intermediate_size"], sizes["num_key_value_heads"]
    if kind == "gemma3_text":
        sizes["head_dim"] = 16
    torch.manual_seed(seed)
    config = AutoConfig.for_model(kind, **{**sizes, **overrides})
    model = AutoModelForCausalLM.from_config(config)
    model.generation_config.eos_token_id = vocabulary["<eos>"]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
