"""Systems under test: ragbench's own pipeline, a function, recorded answers, and services reached
by HTTP or MCP.

Each has `name` and `answer(query_id, query) -> Answer`; `ask` puts every question of a dataset to
one of them.

More of the lines that README.md has for each stack, `data` being a dataset::

    LanceDB                 rb.evaluate(data, lambda q: table.search(embed(q)).limit(5))
    tantivy                 rb.evaluate(data, lambda q: [
                                (score, searcher.doc(hit)) for score, hit in searcher.search(parse(q), 5).hits])
    rows of a database      rb.evaluate(data, lambda q: cursor.execute("SELECT id, text, score ...", [q]).fetchall())
    a stream                rb.evaluate(data, lambda q: chain.stream({"input": q}))
    a chat model alone      rb.evaluate(data, model.invoke)
    a service with a login, sessions, jobs, pages, a second request: see `ragbench.systems.http`
    runs and qrels of TREC  ragbench score qrels.txt bm25.run dense.run --measure "nDCG@10,P(rel=2)@5,RBP(p=0.5)"
                            ragbench eval bm25.run --test-set tests.yaml
    PyTerrier               rb.score_run(topics_qrels, bm25.transform(topics), ["nDCG@10", "Judged@10"])
    ranx, ir_measures       rb.score_run(ranx_qrels, ranx_run); plain dictionaries by rb.metrics.read_run
    hosted embedders        retriever = ["dense:openai:text-embedding-3-small", "dense:ollama:nomic-embed-text"]
                            below [axes] of a grid

Documents go into an application that has its own before it is asked; by an MCP server with its tools, here those
of `notebooks/notes_app.toml`. What is there is looked for first, so after an interruption the same call continues:

```python
# notes_corpus.py
import time
from concurrent.futures import ThreadPoolExecutor


def put(notes, data):  # notes = rb.load_system("notebooks/notes_app.toml", data)
    def note_of(document):
        category = f"ragbench {document.doc_id}"
        similar = notes.call("nc_notes_search_notes", {"query": document.title})["results"]
        note = next((note for note in similar if note["category"] == category), None)
        if note is None:
            content = {"title": document.title, "content": document.text, "category": category}
            note = notes.call("nc_notes_create_note", content)
        return str(note["id"]), document.doc_id

    with ThreadPoolExecutor(4) as pool:
        ids = dict(pool.map(note_of, data.corpus.values()))
    index = {"indexed_documents": 0}
    while index["indexed_documents"] < len(ids) or index["pending_count"]:
        time.sleep(0.2)
        index = notes.call("nc_get_vector_sync_status", {})
    return ids
```

```python
ids = put(notes, data)  # the application's ids -> the dataset's
matched = rb.systems.match_passages(rb.systems.ask(notes, data), data, known_as=ids)
for note_id in ids:  # take them out again
    notes.call("nc_notes_delete_note", {"note_id": int(note_id)})
```

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
