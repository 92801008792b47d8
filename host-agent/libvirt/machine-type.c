/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Machine types: see machine-type.h
 */

#include <string.h>

#include "libvirt/load.h"
#include "libvirt/machine-type.h"

const char *machine_type_kind(const char *machine)
{
    /* The name of a release can be a number, or that of a distribution. */
    return g_str_has_prefix(machine, "pc-q35-") ? "q35" :
           g_str_has_prefix(machine, "pc-") ? "pc" : NULL;
}

/* The machine that libvirt has a QEMU's capabilities of; NULL if it has not.
 * To be freed. */
static char *machine_of(virConnectPtr connection, const char *emulator,
                        const char *arch, const char *machine)
{
    char *text = virConnectGetDomainCapabilities(connection, emulator, arch,
                                                 machine, "qemu", 0);
    g_autoptr(xmlDoc) doc = text ? document_parse(text, strlen(text), NULL) :
                            NULL;
    xmlNode *root = doc ? xmlDocGetRootElement(doc) : NULL;
    xmlNode *found = root ? document_child(root, "machine", NULL) : NULL;

    free(text);
    return found ? document_content(found) : NULL;
}

char *machine_type_lacks(virConnectPtr connection, const char *emulator,
                         xmlDoc *domain, const char *name)
{
    xmlNode *root = xmlDocGetRootElement(domain);
    xmlNode *os = root ? document_child(root, "os", NULL) : NULL;
    xmlNode *type = os ? document_child(os, "type", NULL) : NULL;
    g_autofree char *machine = type ? document_get(type, "machine") : NULL;
    g_autofree char *arch = type ? document_get(type, "arch") : NULL;
    const char *kind = machine ? machine_type_kind(machine) : NULL;
    g_autofree char *has = NULL, *nearest = NULL;

    if (!kind || !arch) {
        return NULL;
    }
    has = machine_of(connection, emulator, arch, machine);
    nearest = has ? NULL : machine_of(connection, emulator, arch, kind);
    if (!nearest) {
        return NULL;
    }
    return g_strdup_printf(
        "its machine type is %s, which %s does not have: the newest of that "
        "kind there is %s; change <type machine='%s'> to that (virsh edit %s), "
        "and discard a saved state, which is of that machine", machine,
        emulator, nearest, machine, name);
}
