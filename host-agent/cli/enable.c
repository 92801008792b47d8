/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail enable: let a libvirt domain be traced
 * backtrail disable: undo that
 */

#include <errno.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "libvirt/capabilities.h"
#include "libvirt/domain.h"
#include "libvirt/kvm-host.h"
#include "libvirt/machine-type.h"
#include "libvirt/tracing.h"
#include "util/json.h"

struct enable {
    bool disable;
    char *connect;
    char *emulator;
    char *agent;
    gboolean tcg;
    gboolean guest_names;
    gboolean xml;
    gboolean dry_run;
    gboolean json;
    /* Results */
    const char *name;
    struct domain domain;
    bool running;
    bool saved;                 /* it has a saved state to resume from */
    char *before;
    char *after;
    GPtrArray *changes;
    bool local;                 /* its host is this one */
    bool kvm;                   /* it runs under KVM */
    unsigned kept;
};

static bool enable_fail(const struct enable *e, const char *why)
{
    cli_error("%s: %s", e->name, why);
    return false;
}

/* Reads a file of any kind, at most as large as XML may be. */
static char *read_xml(const char *path, GError **error)
{
    FILE *file = strcmp(path, "-") ? fopen(path, "re") : stdin;
    g_autofree char *text = g_malloc(DOCUMENT_MAX + 2);
    size_t n = file ? fread(text, 1, DOCUMENT_MAX + 1, file) : 0;
    bool failed = !file || ferror(file);
    int reason = errno;

    if (file && file != stdin) {
        fclose(file);
    }
    if (failed) {
        g_set_error_literal(error, G_FILE_ERROR,
                            g_file_error_from_errno(reason),
                            g_strerror(reason));
        return NULL;
    }
    if (memchr(text, 0, n)) {
        g_set_error_literal(error, G_FILE_ERROR, G_FILE_ERROR_INVAL,
                            "this is not the XML of a domain: it has zero "
                            "bytes");
        return NULL;
    }
    text[n] = 0;
    return g_steal_pointer(&text);
}

static bool get_xml(struct enable *e)
{
    g_autofree char *uri = NULL;
    g_autoptr(GError) error = NULL;
    unsigned flags = VIR_DOMAIN_XML_INACTIVE;

    if (e->xml) {
        e->before = read_xml(e->name, &error);
        return e->before || enable_fail(e, error->message);
    }
    if (!domain_open(&e->domain, e->connect, e->name, &error)) {
        cli_error("%s", error->message);
        return false;
    }
    if (virDomainIsPersistent(e->domain.domain) != 1) {
        return enable_fail(e, "this domain is transient, and libvirt stores "
                           "no XML for it; use --xml on the XML that it is "
                           "created from");
    }
    uri = virConnectGetURI(e->domain.connection);
    e->local = domain_is_local(uri);
    e->running = virDomainIsActive(e->domain.domain) == 1;
    e->saved = virDomainHasManagedSaveImage(e->domain.domain, 0) == 1;
    if (!e->dry_run) {
        /* Passwords must be kept, but not shown. */
        flags |= VIR_DOMAIN_XML_SECURE;
    }
    e->before = virDomainGetXMLDesc(e->domain.domain, flags);
    return e->before || enable_fail(e, domain_last_error());
}

/* What KVM cannot do on the domain's host, QEMU would say too late. */
static bool check_kvm(struct enable *e)
{
    g_autofree char *fault = e->local && e->kvm ? kvm_host_fault("") :
                             NULL;

    if (fault) {
        cli_error("%s: this domain runs under KVM, which cannot trace it: %s; "
                  "or have QEMU emulate it (type 'qemu'), which is slower: "
                  "backtrail enable --tcg", e->name, fault);
    }
    return !fault;
}

static bool change_xml(struct enable *e)
{
    const struct tracing_options options = {
        .emulator = e->emulator ? e->emulator : BACKTRAIL_EMULATOR,
        .agent = !e->agent ? TRACING_AGENT :
                 strcmp(e->agent, "none") ? e->agent : NULL,
        .any_agent = !e->agent,
        .tcg = e->tcg,
        .guest_names = e->guest_names,
    };
    g_autoptr(GError) error = NULL;
    g_autoptr(xmlDoc) doc = document_parse(e->before,
                                           strlen(e->before), &error);
    struct tracing_state state;

    if (!doc ||
        !(e->disable ? tracing_disable(doc, &e->changes, &error) :
          tracing_enable(doc, &options, &e->changes, &error)) ||
        !tracing_inspect(doc, &state, &error)) {
        return enable_fail(e, error->message);
    }
    e->kvm = state.kvm;
    tracing_state_clear(&state);
    for (unsigned i = 0; i < e->changes->len; i++) {
        const struct tracing_change *c =
            g_ptr_array_index(e->changes, i);

        e->kept += c->kept;
    }
    e->after = document_text(doc);
    return e->disable || check_kvm(e);
}

/* Writes @text to a file that nobody else can read.  Returns its path, to be
 * freed. */
static char *temporary_file(const char *text, GError **error)
{
    char *path = NULL;
    int fd = g_file_open_tmp("backtrail-XXXXXX", &path, error);

    if (fd < 0) {
        return NULL;
    }
    close(fd);
    if (!g_file_set_contents_full(path, text, -1, G_FILE_SET_CONTENTS_NONE,
                                  0600, error)) {
        g_unlink(path);
        g_clear_pointer(&path, g_free);
    }
    return path;
}

static bool show_difference(struct enable *e)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *before = NULL, *after = NULL, *output = NULL;
    g_autoptr(xmlDoc) doc = NULL;
    g_autofree char *same = NULL;
    g_auto(GStrv) lines = NULL;
    bool ok = false;
    int status;

    /* Format both alike. */
    doc = document_parse(e->before, strlen(e->before), NULL);
    same = document_text(doc);
    before = temporary_file(same, &error);
    after = before ? temporary_file(e->after, &error) : NULL;
    if (after) {
        char *argv[] = {
            (char *)"diff", (char *)"-u", (char *)"--label",
            (char *)"as it is", (char *)"--label", (char *)"as it would be",
            before, after, NULL,
        };

        ok = g_spawn_sync(NULL, argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL,
                          &output, NULL, &status, &error);
        /* For people, other than the XML itself */
        lines = ok ? g_strsplit(output, "\n", -1) : NULL;
        for (char **line = lines; line && *line && line[1]; line++) {
            cli_printf("%s\n", *line);
        }
        g_unlink(after);
    }
    if (before) {
        g_unlink(before);
    }
    return ok || enable_fail(e, error->message);
}

/* Devices of @domain that the emulator lacks, for which libvirt may have
 * refused it; NULL if there are none.  To be freed. */
static char *lacking(struct enable *e, const char *emulator, xmlDoc *domain)
{
    g_autofree char *text = virConnectGetDomainCapabilities(
        e->domain.connection, emulator, "x86_64", NULL, "qemu", 0);
    g_autoptr(xmlDoc) capabilities =
        text ? document_parse(text, strlen(text), NULL) : NULL;
    g_auto(GStrv) lacks = capabilities ?
        capabilities_lacks(capabilities, domain) : NULL;

    return lacks && *lacks ? g_strjoinv(", ", lacks) : NULL;
}

/* libvirt has refused the domain for a reason that it gave. */
static bool refused(struct enable *e, const char *why)
{
    const char *emulator = e->emulator ? e->emulator : BACKTRAIL_EMULATOR;
    g_autoptr(xmlDoc) domain = document_parse(e->after, strlen(e->after),
                                              NULL);
    g_autofree char *machine = NULL, *lacks = NULL;

    if (!domain) {
        return enable_fail(e, why);
    }
    machine = machine_type_lacks(e->domain.connection, emulator, domain,
                                 e->name);
    if (machine) {
        return enable_fail(e, machine);
    }
    lacks = lacking(e, emulator, domain);
    if (lacks) {
        cli_error("%s: %s; our QEMU has no %s: change that first (virsh "
                  "edit %s), SPICE to <graphics type='vnc'/>, and remove "
                  "channels and redirections of type 'spicevmc'", e->name,
                  why, lacks, e->name);
        return false;
    }
    return enable_fail(e, why);
}

static bool define(struct enable *e)
{
    virDomainPtr domain;

    if (!strcmp(e->before, e->after)) {
        return true;
    }
    domain = virDomainDefineXML(e->domain.connection, e->after);
    if (!domain) {
        g_autofree char *why = g_strdup(domain_last_error());

        return refused(e, why);
    }
    virDomainFree(domain);
    return true;
}

static void print_changes_json(const struct enable *e)
{
    JsonArray *changes = json_array_new();

    for (unsigned i = 0; i < e->changes->len; i++) {
        const struct tracing_change *c =
            g_ptr_array_index(e->changes, i);

        json_array_add_object_element(changes, btrail_json_new(
            "s:element", c->where, "S:attribute", c->attribute,
            "S:was", c->was, "S:now", c->now, "b:kept", c->kept, NULL));
    }
    cli_print_json(btrail_json_new(
        "s:domain", e->name, "b:enabled", !e->disable,
        "b:dry_run", e->dry_run, "b:running", e->running, "b:saved", e->saved,
        "b:kvm", e->kvm, "a:changes", changes, NULL));
}

static void print_changes(const struct enable *e)
{
    if (e->disable && !e->changes->len) {
        cli_printf("%s: nothing to undo\n", e->name);
        return;
    }
    cli_printf(e->disable ? "%s: as it was before backtrail enable" :
               "%s: can be traced", e->name);
    cli_printf("%s\n",
               e->running ? "; it is running: this takes effect when it "
               "is started the next time, not when it reboots" : "");
    if (e->saved) {
        cli_printf("%s: it has a saved state, and resumes from it with the "
                   "devices of that time when it is started; this takes effect "
                   "at the start after that, or once that state is discarded: "
                   "virsh managedsave-remove %s\n", e->name, e->name);
    }
}

/* Reports what still keeps the domain from being traced, or undone. */
static int verdict(const struct enable *e)
{
    if (!e->disable && e->kvm && !e->local) {
        cli_error("%s: this domain runs under KVM; whether the KVM of its host "
                  "can trace is not known here, backtrail doctor says so "
                  "there; --tcg has QEMU emulate it (type 'qemu'), which is "
                  "slower", e->name);
        return CLI_DAMAGED;
    }
    for (unsigned i = 0; e->disable && i < e->changes->len; i++) {
        const struct tracing_change *c =
            g_ptr_array_index(e->changes, i);

        if (c->kept) {
            cli_error("%s: %s%s%s has been changed since, and is left as it is",
                      e->name, c->where, c->attribute ? ", " : "",
                      c->attribute ? c->attribute : "");
        }
    }
    return e->kept ? CLI_DAMAGED : CLI_OK;
}

static int run_enable(struct enable *e)
{
    if (!get_xml(e) || !change_xml(e)) {
        return CLI_FAILED;
    }
    if (e->dry_run) {
        if (!e->json && !show_difference(e)) {
            return CLI_FAILED;
        }
    } else if (e->xml) {
        fputs(e->after, stdout);
    } else if (!define(e)) {
        return CLI_FAILED;
    }
    if (e->json) {
        print_changes_json(e);
    } else if (!e->xml && !e->dry_run) {
        print_changes(e);
    }
    return fflush(stdout) ? CLI_FAILED : verdict(e);
}

static int enable(struct enable *e, int *argc, char ***argv,
                  const GOptionEntry *entries, const char *summary)
{
    int code = CLI_USAGE;

    if (!cli_parse(argc, argv, entries, 1, "DOMAIN|FILE", summary)) {
        /* cli_parse() has printed the error. */
    } else if (e->xml && e->connect) {
        cli_error("--xml changes a file; it excludes --connect");
    } else if (e->guest_names && e->agent && !strcmp(e->agent, "none")) {
        cli_error("--guest-names connects the guest to the agent; it excludes "
                  "--agent=none");
    } else if (e->xml && e->json && !e->dry_run) {
        cli_error("--xml prints XML; --json also needs --dry-run");
    } else {
        e->name = (*argv)[1];
        code = run_enable(e);
    }
    domain_close(&e->domain);
    g_clear_pointer(&e->changes, g_ptr_array_unref);
    g_free(e->before);
    g_free(e->after);
    g_free(e->connect);
    g_free(e->emulator);
    g_free(e->agent);
    return code;
}

#define COMMON_ENTRIES(e) \
        { "connect", 'c', 0, G_OPTION_ARG_STRING, &(e).connect, \
          "libvirt's URI (default: as for virsh)", "URI" }, \
        { "xml", 0, 0, G_OPTION_ARG_NONE, &(e).xml, \
          "the argument is a file with a domain's XML, - for stdin; print " \
          "the changed XML", NULL }, \
        { "dry-run", 'n', 0, G_OPTION_ARG_NONE, &(e).dry_run, \
          "show what would change, without changing it", NULL }, \
        { "json", 0, 0, G_OPTION_ARG_NONE, &(e).json, "print JSON", NULL }

int cmd_enable(int argc, char **argv)
{
    struct enable e = { false };
    const GOptionEntry entries[] = {
        COMMON_ENTRIES(e),
        { "emulator", 0, 0, G_OPTION_ARG_FILENAME, &e.emulator,
          "QEMU with Backtrail's patches, on the domain's host (default: "
          "as configured when Backtrail was built)", "PATH" },
        { "agent", 0, 0, G_OPTION_ARG_FILENAME, &e.agent,
          "unix socket of the agent on the domain's host, or none (default: "
          TRACING_AGENT ")", "PATH" },
        { "tcg", 0, 0, G_OPTION_ARG_NONE, &e.tcg,
          "if the domain runs under KVM, let QEMU emulate it", NULL },
        { "guest-names", 0, 0, G_OPTION_ARG_NONE, &e.guest_names,
          "give the guest a port through which backtrail-guest-names in it can "
          "say names", NULL },
        { NULL }
    };

    return enable(&e, &argc, &argv, entries,
                  "Let a libvirt domain be traced from its next start on.");
}

int cmd_disable(int argc, char **argv)
{
    struct enable e = { true };
    const GOptionEntry entries[] = {
        COMMON_ENTRIES(e),
        { NULL }
    };

    return enable(&e, &argc, &argv, entries,
                  "Undo what backtrail enable did to a domain.");
}
