/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * XML documents from others: read, changed in places, written
 */

#ifndef BTRAIL_DOCUMENT_H
#define BTRAIL_DOCUMENT_H

#include <glib.h>
#include <libxml/tree.h>
#include <stdbool.h>

#define BTRAIL_DOMAIN_ERROR btrail_domain_error_quark()
GQuark btrail_domain_error_quark(void);

/**
 * enum btrail_domain_error
 * @BTRAIL_DOMAIN_ERROR_XML:         this is not XML, or not XML that is read
 * @BTRAIL_DOMAIN_ERROR_UNSUPPORTED: a guest that cannot be traced
 * @BTRAIL_DOMAIN_ERROR_CONFLICT:    the domain has settings of its own that
 *                                   are in the way
 * @BTRAIL_DOMAIN_ERROR_RECORD:      what enable has noted makes no sense
 */
enum btrail_domain_error {
    BTRAIL_DOMAIN_ERROR_XML,
    BTRAIL_DOMAIN_ERROR_UNSUPPORTED,
    BTRAIL_DOMAIN_ERROR_CONFLICT,
    BTRAIL_DOMAIN_ERROR_RECORD,
};

/* Far more than any domain has */
#define BTRAIL_DOCUMENT_MAX (4u << 20)

G_DEFINE_AUTOPTR_CLEANUP_FUNC(xmlDoc, xmlFreeDoc)

/**
 * btrail_document_parse - parse XML that nobody vouches for
 *
 * A document type is refused, and with it all entities; nothing is fetched.
 * Comments, CDATA and white space stay as they are.  NULL and @error if it is
 * not well-formed, not UTF-8, too large or too deep.
 */
xmlDoc *btrail_document_parse(const char *text, gsize len, GError **error);

/* The document as text: as it was parsed, but for what was changed, and for
 * what means nothing in XML: quotes, white space inside of tags and outside of
 * the root, namespace declarations behind attributes.  To be freed. */
char *btrail_document_text(xmlDoc *doc);

/* The first child element of this name, in namespace @href (NULL for none) */
xmlNode *btrail_document_child(const xmlNode *parent, const char *name,
                               const char *href);

/**
 * btrail_document_add - add an element behind the others of @parent
 * @ns: its namespace or NULL
 * @fresh: @parent was added, too, and is indented as its own siblings are
 *
 * It is indented as the one before it is.  btrail_document_remove() takes it
 * away with its indentation, so that all is as it was, to the byte.
 */
xmlNode *btrail_document_add(xmlNode *parent, const char *name, xmlNs *ns,
                             bool fresh);
void btrail_document_remove(xmlNode *node);

/* Has it neither attributes nor content but white space? */
bool btrail_document_is_blank(const xmlNode *node);

/* An attribute that is in no namespace; NULL if there is none.  To be freed. */
char *btrail_document_get(const xmlNode *node, const char *name);
/* Set it, in its place if there is one; remove it if @value is NULL. */
void btrail_document_set(xmlNode *node, const char *name, const char *value);

/* What is inside of an element, as XML; NULL if nothing is.  To be freed. */
char *btrail_document_get_inner(const xmlNode *node);
/* Set it; false if it is not the content of an element. */
bool btrail_document_set_inner(xmlNode *node, const char *xml);

/* The text inside of an element, without white space around it; to be freed. */
char *btrail_document_content(const xmlNode *node);

#endif /* BTRAIL_DOCUMENT_H */
