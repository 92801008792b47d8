/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * XML documents of others: parsing them, changing parts, formatting them
 */

#ifndef BTRAIL_DOCUMENT_H
#define BTRAIL_DOCUMENT_H

#include <glib.h>
#include <libxml/tree.h>
#include <stdbool.h>

#define DOMAIN_ERROR domain_error_quark()
GQuark domain_error_quark(void);

/**
 * enum domain_error
 * @DOMAIN_ERROR_XML:         this is not XML, or XML that is refused
 * @DOMAIN_ERROR_UNSUPPORTED: a guest that cannot be traced
 * @DOMAIN_ERROR_CONFLICT:    the domain's own settings conflict
 * @DOMAIN_ERROR_RECORD:      the note of enable is malformed
 */
enum domain_error {
    DOMAIN_ERROR_XML,
    DOMAIN_ERROR_UNSUPPORTED,
    DOMAIN_ERROR_CONFLICT,
    DOMAIN_ERROR_RECORD,
};

/* Far more than any domain has */
#define DOCUMENT_MAX (4u << 20)

G_DEFINE_AUTOPTR_CLEANUP_FUNC(xmlDoc, xmlFreeDoc)

/**
 * document_parse - parse XML from an untrusted source
 *
 * A document type is refused, and with it all entities; nothing is fetched.
 * Comments, CDATA and white space are kept.  Returns NULL and @error if the
 * text is not well-formed, not UTF-8, too large or too deep.
 */
xmlDoc *document_parse(const char *text, gsize len, GError **error);

/* Formats the document.  Besides what was changed, it differs from the parsed
 * text only where XML gives that no meaning: quotes, white space inside of tags
 * and outside of the root, namespace declarations after attributes.  To be
 * freed. */
char *document_text(xmlDoc *doc);

/* Is this an element of this name, in namespace @href (NULL for none)? */
bool document_is(const xmlNode *node, const char *name,
                 const char *href);

/* The first such child */
xmlNode *document_child(const xmlNode *parent, const char *name,
                        const char *href);

/**
 * document_add - add an element after the others of @parent
 * @ns: its namespace or NULL
 * @fresh: @parent was added, too, and is indented like its siblings
 *
 * The element is indented like the one before it.  document_remove()
 * removes it with its indentation, which restores the text to the byte.
 */
xmlNode *document_add(xmlNode *parent, const char *name, xmlNs *ns,
                      bool fresh);
void document_remove(xmlNode *node);

/* Does the element have no attributes, and no content except white space? */
bool document_is_blank(const xmlNode *node);

/* An attribute without a namespace; NULL if there is none.  To be freed. */
char *document_get(const xmlNode *node, const char *name);
/* Sets an attribute, in its place if it exists; NULL removes it. */
void document_set(xmlNode *node, const char *name, const char *value);

/* The content of an element as XML; NULL if it is empty.  To be freed. */
char *document_get_inner(const xmlNode *node);
/* Sets it; false if @xml is not the content of an element. */
bool document_set_inner(xmlNode *node, const char *xml);

/* The text of an element without white space around it; to be freed. */
char *document_content(const xmlNode *node);

#endif /* BTRAIL_DOCUMENT_H */
