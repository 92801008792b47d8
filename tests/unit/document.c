/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of XML documents of others
 */

#include <string.h>

#include "libvirt/document.h"

static xmlDoc *parse(const char *text)
{
    g_autoptr(GError) error = NULL;
    xmlDoc *doc = document_parse(text, strlen(text), &error);

    g_assert_no_error(error);
    return doc;
}

/* What is read is written as it was. */
static void test_same(void)
{
    static const char *const texts[] = {
        "<a/>\n",
        "<?xml version=\"1.0\"?>\n<a/>\n",
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<a/>\n",
        "<?xml version=\"1.0\" standalone=\"yes\"?>\n<a/>\n",
        "<!-- before -->\n<a b=\"&lt;&amp;&#10;\" a=\"'\">\n\t<b> x </b>\n"
        "<![CDATA[<&]]>&lt;&gt;<?pi x?><!-- in --></a>\n<!-- after -->\n",
        "<x:a xmlns:x=\"u\" xmlns=\"v\" x:b=\"1\"><c xmlns=\"\"/></x:a>\n",
        "<a>\xc3\xa4\xf0\x9f\x98\x80&#13;</a>\n",
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autoptr(xmlDoc) doc = parse(texts[i]);
        g_autofree char *text = document_text(doc);

        g_assert_cmpstr(text, ==, texts[i]);
    }
}

static void refuse(const char *text, gsize len, const char *why)
{
    g_autoptr(GError) error = NULL;
    xmlDoc *doc = document_parse(text, len, &error);

    g_assert_null(doc);
    g_assert_error(error, DOMAIN_ERROR, DOMAIN_ERROR_XML);
    if (!strstr(error->message, why)) {
        g_error("'%s' does not say '%s'", error->message, why);
    }
}

static void test_hostile(void)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        { "", "" },
        { "<a>", "line 1" },
        { "<a>\n<b></a>", "line 2" },
        { "<a>&x;</a>", "x" },
        { "<a b='&x;'/>", "x" },
        { "<a>\xff</a>", "UTF-8" },
        { "<?xml version='1.0' encoding='ISO-8859-1'?><a/>", "UTF-8" },
        { "<a><n:b/></a>", "prefix" },
        { "<a n:b='x'/>", "prefix" },
        { "<!DOCTYPE a><a/>", "document type" },
        { "<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>", "document type" },
        { "<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]>"
          "<a>&x;</a>", "document type" },
        { "<!DOCTYPE a [<!ENTITY x 'xxxx'><!ENTITY y '&x;&x;&x;&x;'>"
          "<!ENTITY z '&y;&y;&y;&y;'>]><a b='&z;'/>", "document type" },
    };
    g_autofree char *large = g_malloc(DOCUMENT_MAX + 1);
    GString *deep = g_string_new(NULL);
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        refuse(cases[i].text, strlen(cases[i].text), cases[i].why);
    }
    refuse("<a/>\0<b/>", 9, "UTF-8");
    memset(large, ' ', DOCUMENT_MAX + 1);
    memcpy(large, "<a/>", 4);
    refuse(large, DOCUMENT_MAX + 1, "larger");
    for (i = 0; i < 100000; i++) {
        g_string_append(deep, "<a>");
    }
    refuse(deep->str, deep->len, "line 1");
    g_string_free(deep, TRUE);
}

/* @before with an element <new/> in <p> is @after, and without it as before */
static void check_add(const char *before, const char *after)
{
    g_autoptr(xmlDoc) doc = parse(before);
    xmlNode *parent = document_child(xmlDocGetRootElement(doc), "p",
                                     NULL);
    xmlNode *node = document_add(parent, "new", NULL, false);
    g_autofree char *with = document_text(doc);
    g_autofree char *without = NULL;

    g_assert_cmpstr(with, ==, after);
    document_remove(node);
    without = document_text(doc);
    g_assert_cmpstr(without, ==, before);
}

static void test_add(void)
{
    check_add("<a><p/></a>\n", "<a><p><new/></p></a>\n");
    check_add("<a>\n <p/>\n</a>\n", "<a>\n <p><new/></p>\n</a>\n");
    check_add("<a>\n <p>\n </p>\n</a>\n",
              "<a>\n <p><new/>\n </p>\n</a>\n");
    check_add("<a><p>x</p></a>\n", "<a><p><new/>x</p></a>\n");
    check_add("<a><p><b/></p></a>\n", "<a><p><b/><new/></p></a>\n");
    check_add("<a><p>\n<b/>\n\n</p></a>\n",
              "<a><p>\n<b/>\n<new/>\n\n</p></a>\n");
    check_add("<a><p> <b/> x <!-- c --></p></a>\n",
              "<a><p> <b/> <new/> x <!-- c --></p></a>\n");
    check_add("<a><p> <!-- c --><b/>\n</p></a>\n",
              "<a><p> <!-- c --><b/><new/>\n</p></a>\n");
}

/* Elements in an element that is new, too */
static void test_add_fresh(void)
{
    static const char before[] = "<a>\n  <b/>\n</a>\n";
    g_autoptr(xmlDoc) doc = parse(before);
    xmlNode *root = xmlDocGetRootElement(doc);
    xmlNode *parent = document_add(root, "p", NULL, false);
    g_autofree char *with = NULL, *without = NULL;

    g_assert_true(document_is_blank(parent));
    document_add(parent, "c", NULL, true);
    document_add(parent, "d", NULL, true);
    g_assert_false(document_is_blank(parent));
    with = document_text(doc);
    g_assert_cmpstr(with, ==, "<a>\n  <b/>\n  <p>\n    <c/>\n    <d/>\n"
                    "  </p>\n</a>\n");
    document_remove(document_child(parent, "c", NULL));
    document_remove(document_child(parent, "d", NULL));
    g_assert_true(document_is_blank(parent));
    document_remove(parent);
    without = document_text(doc);
    g_assert_cmpstr(without, ==, before);
}

/* What is left is as if it had been read so. */
static void test_remove(void)
{
    g_autoptr(xmlDoc) doc = parse("<a> x <b/> </a>");
    xmlNode *root = xmlDocGetRootElement(doc);

    document_remove(document_child(root, "b", NULL));
    g_assert_nonnull(root->children);
    g_assert_null(root->children->next);
    g_assert_cmpstr((const char *)root->children->content, ==, " x  ");
}

static void test_attribute(void)
{
    g_autoptr(xmlDoc) doc = parse("<a x=\"1\" y=\"2\" "
                                  "xmlns:n=\"u\" n:z=\"3\"/>\n");
    xmlNode *root = xmlDocGetRootElement(doc);
    g_autofree char *x = document_get(root, "x"), *text = NULL;

    g_assert_cmpstr(x, ==, "1");
    g_assert_null(document_get(root, "z"));
    document_set(root, "x", "<\"'&\n");
    document_set(root, "y", NULL);
    document_set(root, "z", "4");
    document_set(root, "none", NULL);
    text = document_text(doc);
    g_assert_cmpstr(text, ==, "<a xmlns:n=\"u\" x=\"&lt;&quot;'&amp;&#10;\" "
                    "n:z=\"3\" z=\"4\"/>\n");
}

static void test_inner(void)
{
    static const char *const contents[] = {
        "x", " x ", "<b/>", "&lt;<![CDATA[&]]><!-- c --><?p q?>",
        "<n:b xmlns:n=\"u\"/>",
    };
    g_autoptr(xmlDoc) doc = parse("<a/>");
    xmlNode *root = xmlDocGetRootElement(doc);
    g_autofree char *content = NULL;
    unsigned i;

    g_assert_null(document_get_inner(root));
    for (i = 0; i < G_N_ELEMENTS(contents); i++) {
        g_autofree char *inner = NULL;

        g_assert_true(document_set_inner(root, contents[i]));
        inner = document_get_inner(root);
        g_assert_cmpstr(inner, ==, contents[i]);
    }
    g_assert_false(document_set_inner(root, "<b>"));
    g_assert_false(document_set_inner(root, "&x;"));
    g_assert_false(document_set_inner(root, "</a><a>"));
    g_assert_true(document_set_inner(root, "\n /bin/<!-- -->true\n"));
    content = document_content(root);
    g_assert_cmpstr(content, ==, "/bin/true");
    g_assert_true(document_set_inner(root, NULL));
    g_assert_null(root->children);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/document/same", test_same);
    g_test_add_func("/document/hostile", test_hostile);
    g_test_add_func("/document/add", test_add);
    g_test_add_func("/document/add-fresh", test_add_fresh);
    g_test_add_func("/document/remove", test_remove);
    g_test_add_func("/document/attribute", test_attribute);
    g_test_add_func("/document/inner", test_inner);
    return g_test_run();
}
