"""Know harmless TeX, which the page's MathJax may typeset.

MathJax has commands that make links, set styles, load extensions or define other commands for the
whole page. JupyterLab loads all of its packages, so only commands on this list are let through.
"""

from __future__ import annotations

import re


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_COMMANDS = _names(
    """
    Alpha Beta Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega alpha beta gamma delta
    epsilon varepsilon zeta eta theta vartheta iota kappa varkappa lambda mu nu xi pi varpi rho
    varrho sigma varsigma tau upsilon phi varphi chi psi omega digamma

    frac dfrac tfrac cfrac binom dbinom tbinom sqrt root of over choose atop left right middle big
    Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr begin end hline cline displaystyle
    textstyle scriptstyle scriptscriptstyle limits nolimits not substack overset underset stackrel

    sum prod coprod int iint iiint oint bigcap bigcup bigvee bigwedge bigoplus bigotimes bigodot
    biguplus bigsqcup

    arccos arcsin arctan arg cos cosh cot coth csc deg det dim exp gcd hom inf injlim ker lg lim
    liminf limsup ln log max min Pr projlim sec sin sinh sup tan tanh operatorname mod bmod pmod pod

    mathrm mathbf mathit mathbb mathcal mathfrak mathsf mathtt mathscr boldsymbol bm pmb rm bf it
    text textrm textbf textit textsf texttt mbox hat widehat tilde widetilde bar vec dot ddot dddot
    acute grave breve check overline underline overbrace underbrace overrightarrow overleftarrow

    cdot cdots ldots dots dotsb dotsc dotsi dotsm dotso vdots ddots times div pm mp ast star circ
    bullet oplus ominus otimes oslash odot dagger ddagger amalg cap cup uplus sqcap sqcup vee wedge
    setminus wr diamond land lor lnot neg wedge

    le leq ge geq lt gt ne neq equiv sim simeq approx cong propto asymp doteq ll gg lesssim gtrsim
    leqslant geqslant prec succ preceq succeq subset supset subseteq supseteq subsetneq supsetneq
    in ni notin owns mid nmid parallel nparallel perp vdash dashv models bowtie smile frown
    triangleq coloneqq

    to gets leftarrow rightarrow leftrightarrow Leftarrow Rightarrow Leftrightarrow uparrow
    downarrow updownarrow Uparrow Downarrow mapsto longmapsto longrightarrow longleftarrow
    Longrightarrow Longleftarrow Longleftrightarrow hookrightarrow hookleftarrow rightharpoonup
    rightleftharpoons implies impliedby iff xrightarrow xleftarrow nearrow searrow swarrow nwarrow

    infty partial nabla forall exists nexists emptyset varnothing hbar ell Re Im wp aleph beth angle
    triangle square blacksquare Box Diamond clubsuit diamondsuit heartsuit spadesuit flat natural
    sharp surd top bot prime backslash degree checkmark therefore because complement imath jmath

    lbrace rbrace lbrack rbrack langle rangle lfloor rfloor lceil rceil lvert rvert lVert rVert vert
    Vert quad qquad enspace thinspace nonumber notag
    """
)
_ENVIRONMENTS = _names(
    """
    matrix pmatrix bmatrix Bmatrix vmatrix Vmatrix smallmatrix array cases rcases aligned align
    alignedat gathered gather split equation eqnarray multline
    """
)
_COMMAND = re.compile(r"\\([A-Za-z@]+)")
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\s*(?:\{([A-Za-z]*)\*?\})?")


def is_harmless_tex(text: str) -> bool:
    """Return whether every TeX command of a text is one that only sets formulas.

    Examples
    --------
    >>> is_harmless_tex(r"$\\displaystyle \\frac{x^{2}}{2}$"), is_harmless_tex(r"$\\href{x}{y}$")
    (True, False)
    """
    return all(name in _COMMANDS for name in _COMMAND.findall(text)) and all(
        name in _ENVIRONMENTS for name in _ENVIRONMENT.findall(text)
    )
