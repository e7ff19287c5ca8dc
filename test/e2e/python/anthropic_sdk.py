"""The official Anthropic SDK against the gateway whose URL is the argument."""

import sys

import anthropic


def main(url):
    client = anthropic.Anthropic(base_url=url, api_key="test", max_retries=0, timeout=60)
    request = {"model": "chat", "max_tokens": 20, "system": "Be terse.", "messages": [{"role": "user", "content": "Hello"}]}

    whole = client.messages.create(**request)
    assert whole.content[0].text and whole.usage.output_tokens == 20, whole

    with client.messages.stream(**request) as stream:
        streamed = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert streamed == whole.content[0].text and final.stop_reason == whole.stop_reason, (streamed, final)

    count = client.messages.count_tokens(model="chat", messages=request["messages"])
    assert count.input_tokens > 0, count

    try:
        client.messages.create(**{**request, "model": "no-such-model"})
    except anthropic.NotFoundError as e:
        assert e.body["type"] == "error" and e.body["error"]["type"] and e.body["error"]["message"], e.body
    else:
        raise AssertionError("an unknown model was served")


main(sys.argv[1])
print("all checks hold")
