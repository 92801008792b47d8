/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * XML documents of others: see document.h
 */

#include <libxml/parser.h>
#include <libxml/parserInternals.h>
#include <libxml/xmlsave.h>
#include <string.h>

#include "libvirt/document.h"

/* Without NOENT, HUGE, DTDLOAD and XINCLUDE: no entities, no other files, and
 * libxml2's own limits of depth and size apply. */
#define PARSE_OPTIONS \
    (XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING)

G_DEFINE_QUARK(btrail-domain-error-quark, domain_error)

static void refuse_document_type(void *opaque, const xmlChar *name,
                                 const xmlChar *external,
                                 const xmlChar *system)
{
    xmlParserCtxt *ctxt = opaque;

    /* Before any of its content is read */
    *(bool *)ctxt->_private = true;
    xmlStopParser(ctxt);
}

static xmlDoc *bad_xml(GError **error, const char *why)
{
    g_set_error(error, DOMAIN_ERROR, DOMAIN_ERROR_XML,
                "this is not the XML of a domain: %s", why);
    return NULL;
}

static bool is_utf8(const char *encoding)
{
    return !encoding || !g_ascii_strcasecmp(encoding, "utf-8") ||
           !g_ascii_strcasecmp(encoding, "us-ascii") ||
           !g_ascii_strcasecmp(encoding, "ascii");
}

xmlDoc *document_parse(const char *text, gsize len, GError **error)
{
    xmlParserCtxt *ctxt;
    g_autoptr(xmlDoc) doc = NULL;
    bool has_type = false;

    if (len > DOCUMENT_MAX) {
        return bad_xml(error, "it is larger than 4 MiB");
    }
    if (!g_utf8_validate(text, len, NULL)) {
        return bad_xml(error, "it is not UTF-8");
    }
    ctxt = xmlNewParserCtxt();
    if (!ctxt) {
        g_error("out of memory");
    }
    ctxt->_private = &has_type;
    ctxt->sax->internalSubset = refuse_document_type;
    doc = xmlCtxtReadMemory(ctxt, text, len, NULL, NULL, PARSE_OPTIONS);
    if (has_type) {
        bad_xml(error, "a document type is not accepted");
        g_clear_pointer(&doc, xmlFreeDoc);
    } else if (!doc) {
        const xmlError *e = xmlCtxtGetLastError(ctxt);
        g_autofree char *line = g_strdup_printf("line %d: %s",
                                                e ? e->line : 0,
                                                e && e->message ? e->message :
                                                "not well-formed");

        bad_xml(error, g_strchomp(line));
    } else if (!ctxt->nsWellFormed) {
        /* libxml2 would make the prefix a part of the name. */
        bad_xml(error, "it has a namespace prefix that is not declared");
        g_clear_pointer(&doc, xmlFreeDoc);
    } else if (!is_utf8((const char *)doc->encoding)) {
        bad_xml(error, "it is not UTF-8");
        g_clear_pointer(&doc, xmlFreeDoc);
    }
    xmlFreeParserCtxt(ctxt);
    return g_steal_pointer(&doc);
}

char *document_text(xmlDoc *doc)
{
    /* -1: there was no XML declaration. */
    int options = doc->standalone == -1 ? XML_SAVE_NO_DECL : 0;
    const char *encoding = doc->encoding ? (const char *)doc->encoding :
                           "UTF-8";
    bool no_encoding = !doc->encoding;
    xmlBuffer *buffer = xmlBufferCreate();
    xmlSaveCtxt *save = xmlSaveToBuffer(buffer, encoding, options);
    char *text;

    if (!save || xmlSaveDoc(save, doc) < 0 || xmlSaveClose(save) < 0) {
        g_error("out of memory");
    }
    text = g_strdup((const char *)xmlBufferContent(buffer));
    xmlBufferFree(buffer);
    if (no_encoding && !(options & XML_SAVE_NO_DECL)) {
        /* The parsed declaration did not name one. */
        static const char named[] = " encoding=\"UTF-8\"";
        char *at = strstr(text, named), *end = strstr(text, "?>");

        if (at && at < end) {
            memmove(at, at + strlen(named), strlen(at + strlen(named)) + 1);
        }
    }
    return text;
}

bool document_is(const xmlNode *node, const char *name,
                 const char *href)
{
    return node->type == XML_ELEMENT_NODE &&
           !strcmp((const char *)node->name, name) &&
           !g_strcmp0(node->ns ? (const char *)node->ns->href : NULL, href);
}

xmlNode *document_child(const xmlNode *parent, const char *name,
                        const char *href)
{
    xmlNode *node;

    for (node = parent->children; node; node = node->next) {
        if (document_is(node, name, href)) {
            return node;
        }
    }
    return NULL;
}

static bool is_blank_text(const xmlNode *node)
{
    return node && node->type == XML_TEXT_NODE && xmlIsBlankNode(node);
}

/* The white space that indents @node, or NULL */
static const char *indentation(const xmlNode *node)
{
    return is_blank_text(node->prev) ? (const char *)node->prev->content :
           NULL;
}

static xmlNode *new_text(xmlNode *parent, const char *text)
{
    return xmlNewDocText(parent->doc, (const xmlChar *)text);
}

xmlNode *document_add(xmlNode *parent, const char *name, xmlNs *ns,
                      bool fresh)
{
    xmlNode *node = xmlNewDocNode(parent->doc, ns, (const xmlChar *)name,
                                  NULL);
    xmlNode *last = xmlLastElementChild(parent);
    const char *indent = NULL;

    if (last) {
        xmlAddNextSibling(last, node);
        indent = indentation(last);
    } else if (parent->children) {
        xmlAddPrevSibling(parent->children, node);
    } else {
        xmlAddChild(parent, node);
        indent = fresh ? indentation(parent) : NULL;
    }
    /* libxml2 merges adjacent texts: never add one beside another. */
    if (indent && last) {
        xmlAddPrevSibling(node, new_text(parent, indent));
    } else if (indent) {
        g_autofree char *deeper = g_strconcat(indent, "  ", NULL);

        xmlAddPrevSibling(node, new_text(parent, deeper));
        xmlAddNextSibling(node, new_text(parent, indent));
    }
    return node;
}

void document_remove(xmlNode *node)
{
    xmlNode *indent = node->prev, *before, *after = node->next;

    if (is_blank_text(indent)) {
        xmlUnlinkNode(indent);
        xmlFreeNode(indent);
    }
    before = node->prev;
    xmlUnlinkNode(node);
    xmlFreeNode(node);
    if (before && before->type == XML_TEXT_NODE &&
        after && after->type == XML_TEXT_NODE) {
        /* As the parser would have */
        xmlTextMerge(before, after);
    }
}

bool document_is_blank(const xmlNode *node)
{
    const xmlNode *child;

    for (child = node->children; child; child = child->next) {
        if (!is_blank_text(child)) {
            return false;
        }
    }
    return !node->properties;
}

char *document_get(const xmlNode *node, const char *name)
{
    xmlChar *value = xmlGetNoNsProp(node, (const xmlChar *)name);
    char *copy = g_strdup((const char *)value);

    xmlFree(value);
    return copy;
}

void document_set(xmlNode *node, const char *name, const char *value)
{
    if (value) {
        xmlSetNsProp(node, NULL, (const xmlChar *)name,
                     (const xmlChar *)value);
    } else {
        xmlUnsetNsProp(node, NULL, (const xmlChar *)name);
    }
}

char *document_get_inner(const xmlNode *node)
{
    xmlBuffer *buffer;
    xmlNode *child;
    char *xml;

    if (!node->children) {
        return NULL;
    }
    buffer = xmlBufferCreate();
    for (child = node->children; child; child = child->next) {
        if (xmlNodeDump(buffer, node->doc, child, 0, 0) < 0) {
            g_error("out of memory");
        }
    }
    xml = g_strdup((const char *)xmlBufferContent(buffer));
    xmlBufferFree(buffer);
    return xml;
}

static void remove_children(xmlNode *node)
{
    xmlFreeNodeList(node->children);
    node->children = node->last = NULL;
}

bool document_set_inner(xmlNode *node, const char *xml)
{
    xmlNode *list = NULL;

    remove_children(node);
    if (!xml || !*xml) {
        return true;
    }
    if (xmlParseInNodeContext(node, xml, strlen(xml), PARSE_OPTIONS, &list) !=
        XML_ERR_OK) {
        xmlFreeNodeList(list);
        return false;
    }
    if (list) {
        xmlAddChildList(node, list);
    }
    return true;
}

char *document_content(const xmlNode *node)
{
    xmlChar *content = xmlNodeGetContent(node);
    char *copy = g_strdup(content ? (const char *)content : "");

    xmlFree(content);
    return g_strstrip(copy);
}
