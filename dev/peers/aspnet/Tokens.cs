using System;
using System.Collections.Concurrent;
using System.Security.Claims;
using System.Threading.Tasks;
using Microsoft.AspNetCore.Authentication;
using Microsoft.AspNetCore.Http;

// The access tokens, which requests to /auth must have in a header field or in the query. `token-NAME` signs NAME in, and
// `token-NAME-SECONDS` does so until SECONDS after its first use.
public sealed class Tokens
{
    const string Scheme = "Bearer";
    readonly ConcurrentDictionary<string, bool> revoked = new ConcurrentDictionary<string, bool>();
    readonly ConcurrentDictionary<string, DateTimeOffset> ends = new ConcurrentDictionary<string, DateTimeOffset>();

    public string Revoke(string token)
    {
        revoked[token] = true;
        return token;
    }

    public Task Handle(HttpContext context, RequestDelegate next)
    {
        if (!context.Request.Path.StartsWithSegments("/auth")) return next(context);
        var result = Check(TokenOf(context.Request));
        if (!result.Succeeded)
        {
            context.Response.StatusCode = StatusCodes.Status401Unauthorized;
            return Task.CompletedTask;
        }
        context.User = result.Principal;
        context.Features.Set<IAuthenticateResultFeature>(new Feature { AuthenticateResult = result });
        return next(context);
    }

    static string TokenOf(HttpRequest request)
    {
        var header = request.Headers["Authorization"].ToString();
        return header.StartsWith(Scheme + " ") ? header.Substring(Scheme.Length + 1) : request.Query["access_token"].ToString();
    }

    AuthenticateResult Check(string token)
    {
        var parts = token.Split('-');
        if (parts.Length < 2 || parts[0] != "token") return AuthenticateResult.Fail("The token is unknown.");
        if (revoked.ContainsKey(token)) return AuthenticateResult.Fail("The token is revoked.");
        var properties = new AuthenticationProperties();
        if (parts.Length > 2)
        {
            // The hub closes its connections at this time.
            properties.ExpiresUtc = ends.GetOrAdd(token, _ => DateTimeOffset.UtcNow.AddSeconds(int.Parse(parts[2])));
            if (properties.ExpiresUtc <= DateTimeOffset.UtcNow) return AuthenticateResult.Fail("The token has expired.");
        }
        var identity = new ClaimsIdentity(new[] { new Claim(ClaimTypes.NameIdentifier, parts[1]) }, Scheme);
        return AuthenticateResult.Success(new AuthenticationTicket(new ClaimsPrincipal(identity), properties, Scheme));
    }

    // The server has one only for authentication that is a service.
    sealed class Feature : IAuthenticateResultFeature
    {
        public AuthenticateResult AuthenticateResult { get; set; }
    }
}
