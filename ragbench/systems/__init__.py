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
    a service with a login, sessions, jobs, pages, a second request: see `ragbench.systems.http_system`
    runs and qrels of TREC  ragbench score qrels.txt bm25.run dense.run --measure "nDCG@10,P(rel=2)@5,RBP(p=0.5)"
                            ragbench eval bm25.run --test-set tests.yaml
    PyTerrier               rb.score_run(topics_qrels, bm25.transform(topics), ["nDCG@10", "Judged@10"])
    ranx, ir_measures       rb.score_run(ranx_qrels, ranx_run); plain dictionaries by rb.metrics.read_run
    hosted embedders        retriever = ["dense:openai:text-embedding-3-small", "dense:ollama:nomic-embed-text"]
                            below [axes] of a grid
    documents into it       rb.systems.ingest; see `ragbench.systems.ingestion`

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

from ragbench.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
