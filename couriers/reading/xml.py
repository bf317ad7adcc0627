"""Reading a courier's XML: by local names, without entities, and never over the network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from couriers.reading.answer import text
from tracking.errors import UnreadableAnswer


class Element:
    """One element; namespaces are ignored, because couriers change them without notice."""

    __slots__ = ("_node",)

    def __init__(self, node: Any) -> None:
        self._node = node

    def text(self, name: str) -> str | None:
        """Return the trimmed text of the first child called `name`; None for none, or an empty."""
        child = next((node for node in self._node if _local(node) == name), None)
        return None if child is None else Element(child).content

    @property
    def content(self) -> str | None:
        """The trimmed text of this element; None for none."""
        return text(self._node.xpath("string()"))

    def attribute(self, name: str) -> str | None:
        """Return the trimmed value of the attribute called `name`; None for none, or an empty."""
        return text(self._node.get(name))

    def each(self, name: str) -> Iterator[Element]:
        """Find all elements called `name`, this one and those at any depth, in their order."""
        return (Element(node) for node in self._node.iter() if _local(node) == name)

    def first(self, name: str) -> Element | None:
        """Find the first of `each`; None when there is none."""
        return next(self.each(name), None)


def read_xml(body: bytes) -> Element:
    """Parse a whole document.

    Raises UnreadableAnswer for what is no XML, and for a document type: no courier sends one, and
    entities are how a small document becomes a huge one or names a file of this machine.
    """
    # Slow to import, and needed by no command but a worker's and `reparse`.
    from lxml import etree  # noqa: PLC0415 - see above

    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, huge_tree=False, load_dtd=False
    )
    try:
        root = etree.fromstring(body.strip(), parser)  # an XML declaration must stand first
    except (etree.XMLSyntaxError, ValueError) as unfit:
        raise UnreadableAnswer(f"not the XML that was expected: {unfit}") from unfit
    if root.getroottree().docinfo.internalDTD is not None:
        raise UnreadableAnswer("the XML declares a document type")
    return Element(root)


def _local(node: Any) -> str:
    """Name an element without its namespace; "" for comments and processing instructions."""
    return node.tag.rpartition("}")[2] if isinstance(node.tag, str) else ""
