/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A libvirt-qemu.so.0 with a host of QEMU that has one domain, which is not
 * running: any name is its, and its XML is in the file that the environment
 * names as FAKE_LIBVIRT_DOMAIN
 */

#include <glib.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <stdlib.h>
#include <string.h>

virConnectAuthPtr virConnectAuthPtrDefault;

/* Never looked into */
static char connection, guest;

virConnectPtr virConnectOpenAuth(const char *uri, virConnectAuthPtr auth,
                                 unsigned int flags)
{
    return (virConnectPtr)&connection;
}

int virConnectClose(virConnectPtr conn)
{
    return 0;
}

char *virConnectGetURI(virConnectPtr conn)
{
    return strdup("qemu:///system");
}

const char *virConnectGetType(virConnectPtr conn)
{
    return "QEMU";
}

char *virConnectGetCapabilities(virConnectPtr conn)
{
    return strdup("<capabilities/>");
}

char *virConnectGetDomainCapabilities(virConnectPtr conn, const char *emulator,
                                      const char *arch, const char *machine,
                                      const char *virttype, unsigned int flags)
{
    return strdup("<domainCapabilities/>");
}

virDomainPtr virDomainLookupByName(virConnectPtr conn, const char *name)
{
    return (virDomainPtr)&guest;
}

int virDomainFree(virDomainPtr domain)
{
    return 0;
}

char *virDomainGetXMLDesc(virDomainPtr domain, unsigned int flags)
{
    const char *path = getenv("FAKE_LIBVIRT_DOMAIN");
    char *text = NULL;

    g_file_get_contents(path, &text, NULL, NULL);
    return text;
}

int virDomainHasManagedSaveImage(virDomainPtr domain, unsigned int flags)
{
    return 0;
}

int virDomainIsActive(virDomainPtr domain)
{
    return 0;
}

const char *virGetLastErrorMessage(void)
{
    return "none";
}

void virSetErrorFunc(void *opaque, virErrorFunc handler)
{
}
