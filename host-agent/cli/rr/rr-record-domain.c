/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail rr record DOMAIN: see rr-record.h
 *
 * The QEMU that records is ours and not libvirt's.  libvirt cannot put
 * blkreplay between a device and its image, its QEMU may run as a user who can
 * write no recording, and its monitor would have to be shared.  So libvirt
 * writes the command line, for the machine to be the same down to the
 * addresses of its devices, and has no further part in it: the domain stays
 * shut off and its definition and images stay as they are.
 *
 * If the domain runs, it continues, and what is recorded is a copy.  libvirt
 * passes the commands that save its guest on to its QEMU.
 */

#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/rr/rr-record.h"
#include "replay/native.h"
#include "replay/running-arguments.h"

static bool fail(const struct rr_domain *d, const char *why)
{
    cli_error("%s: %s", virDomainGetName(d->guest.domain), why);
    return false;
}

/* Disks and QEMU have to be on this host. */
static bool check_host(struct rr_domain *d, const char *name)
{
    g_autofree char *uri = virConnectGetURI(d->guest.connection);
    g_autoptr(GUri) parsed = uri ? g_uri_parse(uri, G_URI_FLAGS_NONE, NULL) :
                             NULL;
    const char *host = parsed ? g_uri_get_host(parsed) : NULL;
    const char *user = parsed ? g_uri_get_userinfo(parsed) : NULL;
    const char *driver = virConnectGetType(d->guest.connection);

    if (!domain_is_local(uri)) {
        cli_error("%s is on host %s, and a guest is recorded where its disks "
                  "are: run there: ssh %s%s%s backtrail rr record -o FOLDER "
                  "%s; the folder can then be copied to any host", name,
                  host ? host : "?", user ? user : "", user ? "@" : "",
                  host ? host : "HOST", name);
        return false;
    }
    if (g_strcmp0(driver, "QEMU")) {
        cli_error("%s does not run QEMU, whose guests are the only ones that "
                  "can be recorded; use --connect qemu:///system", uri);
        return false;
    }
    return true;
}

bool rr_domain_is_off(const struct rr_domain *d, GError **error)
{
    const char *name = virDomainGetName(d->guest.domain);
    int active = virDomainIsActive(d->guest.domain);

    if (active < 0) {
        return agent_fail(error, AGENT_ERROR_SYSTEM, "%s: %s",
                          name, domain_last_error());
    }
    if (active) {
        return agent_fail(error, AGENT_ERROR_COMMAND,
                          "%s has been started meanwhile", name);
    }
    if (virDomainHasManagedSaveImage(d->guest.domain, 0) == 1) {
        return agent_fail(error, AGENT_ERROR_COMMAND,
                          "%s has a saved state, which its disks belong "
                          "to: start it and shut it down, or virsh "
                          "managedsave-remove %s", name, name);
    }
    return true;
}

static char *find_emulator(xmlDoc *doc)
{
    xmlNode *root = xmlDocGetRootElement(doc);
    xmlNode *devices = document_child(root, "devices", NULL);
    xmlNode *node = devices ?
        document_child(devices, "emulator", NULL) : NULL;

    return node ? document_content(node) : NULL;
}

static char *make_xml(struct rr_domain *d, bool running)
{
    g_autofree char *text = virDomainGetXMLDesc(
        d->guest.domain, VIR_DOMAIN_XML_SECURE |
        (running ? 0 : VIR_DOMAIN_XML_INACTIVE));
    g_autoptr(GError) error = NULL;
    g_autoptr(xmlDoc) doc = NULL;

    if (!text) {
        fail(d, domain_last_error());
        return NULL;
    }
    doc = document_parse(text, strlen(text), &error);
    if (!doc ||
        !replayable_make(doc, running, &d->replayable, &error)) {
        fail(d, error->message);
        return NULL;
    }
    for (unsigned i = 0; i < d->replayable.refusals->len; i++) {
        fail(d, g_ptr_array_index(d->replayable.refusals, i));
    }
    d->emulator = running ? find_emulator(doc) : NULL;
    return d->replayable.refusals->len ? NULL : document_text(doc);
}

static bool make_arguments(struct rr_domain *d, const char *xml,
                           char *const *added)
{
    g_autofree char *line = virConnectDomainXMLToNative(
        d->guest.connection, "qemu-argv", xml, 0);
    g_autoptr(GPtrArray) list = g_ptr_array_new();
    g_autoptr(GError) error = NULL;

    if (!line) {
        return fail(d, domain_last_error());
    }
    for (unsigned i = 0; i < d->replayable.arguments->len; i++) {
        g_ptr_array_add(list, g_ptr_array_index(d->replayable.arguments, i));
    }
    for (; *added; added++) {
        g_ptr_array_add(list, *added);
    }
    g_ptr_array_add(list, NULL);
    d->arguments = native_arguments(line, (char *const *)list->pdata, &error);
    return d->arguments || fail(d, error->message);
}

bool rr_domain_open(struct rr_domain *d, const char *uri, const char *name,
                    char *const *added)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *xml = NULL;
    bool running;

    *d = (struct rr_domain) { .arguments = NULL };
    if (!domain_open(&d->guest, uri, name, &error)) {
        cli_error("%s", error->message);
        return false;
    }
    if (!check_host(d, name)) {
        return false;
    }
    running = virDomainIsActive(d->guest.domain) == 1;
    if (!running && !rr_domain_is_off(d, &error)) {
        cli_error("%s", error->message);
        return false;
    }
    xml = make_xml(d, running);
    return xml && make_arguments(d, xml, added);
}

struct running_guest *rr_domain_guest(struct rr_domain *d, int cancel_fd,
                                      GError **error)
{
    char **arguments = running_arguments_new(d->arguments, "/", error);

    return !arguments ? NULL : running_guest_new(
        domain_monitor(&d->guest), d->emulator, arguments, cancel_fd,
        error);
}

void rr_domain_close(struct rr_domain *d)
{
    domain_close(&d->guest);
    replayable_clear(&d->replayable);
    g_clear_pointer(&d->arguments, g_strfreev);
    g_clear_pointer(&d->emulator, g_free);
}
